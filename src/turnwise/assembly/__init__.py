"""What a recipe becomes: an open workbench, and samples and policies of earlier runs."""
