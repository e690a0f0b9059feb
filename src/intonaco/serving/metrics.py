"""What the server counts, in Prometheus' text form. One registry per server, none global."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Counters, gauges and histograms of one server."""

    def __init__(self, states: tuple[str, ...]) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._states = states
        self._state = Gauge(
            "intonaco_state", "1 for the state the server is in.", ["state"], registry=registry
        )
        self.requests = Counter(
            "intonaco_http_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.request_seconds = Histogram(
            "intonaco_http_request_seconds",
            "From the headers to the end of the answer.",
            ["route"],
            registry=registry,
            buckets=SECONDS,
        )
        self.draw_seconds = Histogram(
            "intonaco_draw_seconds", "Drawing one picture.", registry=registry, buckets=SECONDS
        )
        self.queue_seconds = Histogram(
            "intonaco_queue_seconds", "Waiting to be drawn.", registry=registry, buckets=SECONDS
        )
        self.waiting = Gauge("intonaco_waiting_pictures", "Pictures that wait.", registry=registry)
        self.pictures = Counter(
            "intonaco_pictures", "Pictures by outcome.", ["outcome"], registry=registry
        )
        self.steps = Counter("intonaco_steps", "Denoising steps done.", registry=registry)
        self.starts = Counter(
            "intonaco_model_process_starts", "Starts by outcome.", ["outcome"], registry=registry
        )
        self.show_state(states[0])

    def show_state(self, current: str) -> None:
        """Say which state the server is in."""
        for state in self._states:
            self._state.labels(state).set(float(state == current))

    def text(self) -> bytes:
        """Return everything in Prometheus' text form."""
        return generate_latest(self.registry)
