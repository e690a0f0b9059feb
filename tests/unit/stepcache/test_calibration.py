"""The calibration file: what it holds, and the refusals of one that cannot be used."""

import json

import pytest

from intonaco.errors import CalibrationError, RequestError
from intonaco.stepcache.calibration import Calibration, Offer, Signal, read_calibration
from intonaco.stepcache.policies import Adaptive, Cadence, Curve, Planned, Window
from intonaco.stepcache.settings import Offered, StepCacheSettings, parse_settings

CURVE = Curve(coefficients=(0.1, 1.0), center=0.5, scale=0.2, low=0.0, high=1.0)
NUMBERS = {
    "num_steps": 50,
    "num_calls": 30.0,
    "ceiling": 1.667,
    "psnr_mean_db": 60.0,
    "psnr_worst_db": 50.0,
    "psnr_p5_db": 51.0,
    "fewer_steps_psnr_mean_db": 40.0,
    "share_above_fewer_steps": 1.0,
}
POLICIES = {
    "even": Cadence(),
    "probed": Adaptive(threshold=0.2, curve=CURVE),
    "listed": Planned(full_steps={50: (0, 1, 20, 49)}),
}


def calibration(**changes) -> Calibration:
    offers = tuple(
        Offer(
            name=name,
            settings=StepCacheSettings(policy=policy, window=Window(first=2, last=1)),
            **NUMBERS,
        )
        for name, policy in POLICIES.items()
    )
    fields = {
        "model_name": "dolls",
        "model_digest": "ab" * 32,
        "num_prompts": 16,
        "num_steps": 50,
        "signal": Signal(
            r2_fit=0.9,
            r2_held_out=0.8,
            pearson=0.85,
            autocorrelation=0.7,
            gated_mode="adaptive",
            curve=CURVE,
        ),
        "offers": offers,
        "chosen": "even",
    }
    return Calibration(**{**fields, **changes})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "step-cache.json"
    path.write_text(calibration().to_json())
    return path


def test_what_is_written_is_read_again_whatever_the_policy(path):
    again = read_calibration(path, model_digest="ab" * 32)
    assert again == calibration()
    assert [offer.settings.policy for offer in again.offers] == list(POLICIES.values())
    assert again.digest == calibration().digest


def test_without_a_name_the_chosen_offer_is_taken():
    assert calibration().settings(Offered(offer=None)).policy == Cadence()
    assert calibration().settings(Offered(offer="probed")).policy == POLICIES["probed"]


def test_a_request_overrides_an_offer():
    choice = parse_settings("calibrated:even,window=9-9")
    assert calibration().settings(choice).window == Window(first=9, last=9)


@pytest.mark.parametrize(
    ("changes", "name"), [({}, "fancy"), ({"offers": (), "chosen": None}, None)]
)
def test_an_offer_that_is_not_there_is_refused_with_those_that_are(changes, name):
    with pytest.raises(RequestError, match="is not offered for dolls; offered are"):
        calibration(**changes).settings(Offered(offer=name))


def test_a_file_of_another_model_is_refused(path):
    with pytest.raises(CalibrationError, match="is of dolls abab"):
        read_calibration(path, model_digest="cd" * 32)


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update(version=2),
        lambda fields: fields.update(surprise=1),
        lambda fields: fields.pop("offers"),
        lambda fields: fields["offers"][0]["settings"]["policy"].update(period=1),
        lambda fields: fields["signal"]["curve"].update(scale=0.0),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused_in_one_line(path, change):
    fields = json.loads(path.read_text())
    change(fields)
    path.write_text(json.dumps(fields))
    with pytest.raises(CalibrationError, match="damaged or of another version") as caught:
        read_calibration(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "x" * ((1 << 20) + 1)])
def test_a_file_that_is_no_calibration_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(CalibrationError, match="intonaco calibrate"):
        read_calibration(path)


def test_a_missing_file_is_refused_with_how_to_write_one(tmp_path):
    with pytest.raises(CalibrationError, match="write one with: intonaco calibrate"):
        read_calibration(tmp_path / "none.json")
