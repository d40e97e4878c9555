"""Parts of the accuracy bench: data, orders, how well an order is shuffled, small models, statistics."""
