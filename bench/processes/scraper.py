"""Scrapes as Prometheus does, from a process of its own: `python -m bench.processes.scraper URL`.

Each line of input is one scrape; the output is its seconds and bytes.
"""

import sys
import time
import urllib.request

ACCEPT = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def main(url: str) -> None:
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        request = urllib.request.Request(url, headers={"Accept": ACCEPT})
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        print(time.perf_counter() - start, size, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
