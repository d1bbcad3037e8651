"""HTTP and addresses: admission, retries, replies, serving."""
