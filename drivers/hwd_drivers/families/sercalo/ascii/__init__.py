"""The ASCII protocol of Sercalo USB units."""
