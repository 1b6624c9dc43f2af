"""What tests of graphs and of savers use. Shipped to users; nothing in Juncture imports it."""
