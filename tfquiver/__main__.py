"""`python -m tfquiver`: as `tfquiver`."""

from tfquiver.cli.main import run

if __name__ == "__main__":
    run()
