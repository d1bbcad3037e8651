"""The synthetic market, its web and its Slack workspace, with their live twins and families of tasks."""
