"""Run images without their board, talk to them, and observe them."""
