# The prompt is repeated for ever.
while True:
    print("Please enter two numbers:")
