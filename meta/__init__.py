"""What should change?"""
