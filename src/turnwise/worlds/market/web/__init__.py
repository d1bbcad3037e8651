"""The pages, news and answers that the market's web search returns."""
