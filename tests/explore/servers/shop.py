"""A well-behaved shop: customers, orders and products, linked by id. All its tools read."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

NAMES = ("Ada Holm", "Bruno Dunn", "Chiara Fuchs", "Dmitri Grant", "Elif Jansen", "Farid Castell")
CITIES = ("Bremen", "Cork", "Graz", "Bremen", "Turku", "Cork")
PRODUCTS = (
    ("P-11", "desk lamp", "lighting", 39.9, 12),
    ("P-12", "floor lamp", "lighting", 89.0, 4),
    ("P-13", "oak shelf", "furniture", 149.5, 7),
    ("P-14", "wall clock", "decoration", 24.75, 31),
    ("P-15", "paper tray", "office", 11.2, 58),
    ("P-16", "filing box", "office", 8.95, 76),
)
READS = ToolAnnotations(readOnlyHint=True)  # type: ignore[call-arg]  # the name on the wire
server = MCPServer("shop")


def customers() -> list[dict[str, Any]]:
    rows = zip(NAMES, CITIES, strict=True)
    return [
        {"customer_id": f"C{101 + key}", "name": name, "city": city} for key, (name, city) in enumerate(rows)
    ]


def products() -> list[dict[str, Any]]:
    keys = ("product_id", "name", "category", "price", "stock")
    return [dict(zip(keys, row, strict=True)) for row in PRODUCTS]


def orders() -> list[dict[str, Any]]:
    return [
        {
            "order_id": 5001 + number,
            "customer_id": f"C{101 + number * 5 % 6}",
            "product_id": f"P-{11 + number * 7 % 6}",
            "quantity": 1 + number * 3 % 4,
            "ordered_on": f"2025-0{1 + number % 6}-{10 + number}",
            "status": ("paid", "shipped", "open")[number % 3],
        }
        for number in range(18)
    ]


@server.tool(annotations=READS)
def list_customers() -> dict[str, Any]:
    """List all customers with their ids and cities."""
    return {"customers": customers()}


@server.tool(annotations=READS)
def get_customer(customer_id: str) -> dict[str, Any]:
    """Return a customer and the number of orders they placed."""
    for row in customers():
        if row["customer_id"] == customer_id:
            placed = [order for order in orders() if order["customer_id"] == customer_id]
            return {**row, "num_orders": len(placed)}
    raise ToolError(f"no customer {customer_id!r}; ids look like C101")


@server.tool(annotations=READS)
def list_orders(customer_id: str) -> dict[str, Any]:
    """List the orders of a customer."""
    return {"orders": [order for order in orders() if order["customer_id"] == customer_id]}


@server.tool(annotations=READS)
def get_order(order_id: int) -> dict[str, Any]:
    """Return an order: its customer, product, quantity, date and status."""
    for order in orders():
        if order["order_id"] == order_id:
            return order
    raise ToolError(f"no order {order_id}; order numbers start at 5001")


@server.tool(annotations=READS)
def get_product(product_id: str) -> dict[str, Any]:
    """Return a product: its name, category, price in euros and stock."""
    for product in products():
        if product["product_id"] == product_id:
            return product
    raise ToolError(f"no product {product_id!r}; ids look like P-11")


@server.tool(annotations=READS)
def search_products(category: str) -> dict[str, Any]:
    """Return the products of a category, e.g. 'office'."""
    return {"products": [product for product in products() if product["category"] == category]}


if __name__ == "__main__":
    server.run()
