"""The routes that the tables of calls make."""

import inspect

from fastapi.routing import APIRoute

from hwd.web.access import TABLES


def test_nothing_of_a_call_runs_in_a_thread() -> None:
    """FastAPI gives what is no coroutine to one; what is asked at the same time would then act in any order."""
    for table in TABLES:
        routes = [route for route in table.router(lambda: None).routes if isinstance(route, APIRoute)]
        assert [(route.path, route.methods) for route in routes] == [(call.path, {call.method}) for call in table]
        for route in routes:
            for call in (route.endpoint, *(one.call for one in route.dependant.dependencies)):
                assert inspect.iscoroutinefunction(call), (route.path, call)
