"""A local web page over run folders: live, after the fact, or on a copied folder."""
