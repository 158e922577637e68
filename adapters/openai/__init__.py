"""The OpenAI dialect: encoding, decoding and the table of vendors that speak it."""
