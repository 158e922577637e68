"""The forms that issue and change a key: fields, read and shown, without a script."""
