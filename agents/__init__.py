"""Who acts?"""
