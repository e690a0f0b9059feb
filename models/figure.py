"""Draws one doll. All parts keep their place on the 16-px token grid: that is what makes the
world learnable in an hour on two cores (placement finer than a token was the wall in trials)."""

from PIL import Image

from models.canvas import Canvas, Point, pattern_tile
from models.head import draw_back_hair, draw_head
from models.palette import CLOTH, INK, PAPER, SKIN, Color, accent, shade
from models.scenery import SIZE, scenery
from models.world import NONE, Doll

CENTER = {"left": 64, "middle": 96, "right": 128}
REFERENCE_SIZE = 96
REFERENCE_TOP = {"head": 0, "clothes": 80}

Arm = tuple[Point, Point, Point]
# Shoulder, elbow, hand of the viewer's left and right arm, relative to the doll's centre line.
ARMS: dict[str, tuple[Arm, Arm]] = {
    "standing": (((-21, 84), (-28, 104), (-30, 124)), ((21, 84), (28, 104), (30, 124))),
    "walking": (((-21, 84), (-32, 102), (-38, 120)), ((21, 84), (32, 100), (40, 112))),
    "waving": (((-21, 84), (-28, 104), (-30, 124)), ((21, 84), (40, 84), (42, 58))),
    "posing": (((-21, 84), (-41, 100), (-22, 117)), ((21, 84), (41, 100), (22, 117))),
    "cheering": (((-21, 84), (-38, 76), (-40, 50)), ((21, 84), (38, 76), (40, 50))),
}
LEGS: dict[str, tuple[tuple[Point, Point], tuple[Point, Point]]] = {
    "walking": (((-9, 120), (-20, 166)), ((9, 120), (20, 166))),
}
STILL_LEGS = (((-9, 120), (-10, 167)), ((9, 120), (10, 167)))
SLEEVE = {"shirt": 0.5, "sweater": 1.0, "jacket": 1.0, "vest": 0.0, "dress": 0.5}


def draw_doll(doll: Doll) -> Image.Image:
    """Return the doll as a 192 x 192 RGB picture."""
    canvas = Canvas(SIZE)
    canvas.image.paste(scenery(doll.scenery, mirrored=doll.mirrored))
    x = CENTER[doll.place]
    canvas.ellipse(x, 174, 34, 5, _shadow_color(doll.scenery))
    _draw_pet(canvas, doll, x)
    draw_back_hair(canvas, doll, x)
    _draw_legs(canvas, doll, x)
    cloth = pattern_tile(SIZE, doll.pattern, CLOTH[doll.top_color], accent(CLOTH[doll.top_color]))
    _draw_arm(canvas, doll, x, ARMS[doll.pose][1])
    _draw_torso(canvas, doll, x, cloth)
    _draw_arm(canvas, doll, x, ARMS[doll.pose][0])
    _draw_held(canvas, doll, x)
    draw_head(canvas, doll, x)
    return canvas.picture()


def reference_picture(doll: Doll, kind: str) -> Image.Image:
    """Return the 96 x 96 reference of a doll: its `head` or its `clothes`."""
    x, top = CENTER[doll.place] - REFERENCE_SIZE // 2, REFERENCE_TOP[kind]
    return draw_doll(doll).crop((x, top, x + REFERENCE_SIZE, top + REFERENCE_SIZE))


def _shadow_color(name: str) -> Color:
    return {
        "beach": (204, 178, 122),
        "park": (82, 146, 72),
        "city": (124, 126, 136),
        "snow": (188, 204, 224),
        "desert": (194, 138, 82),
        "night": (26, 34, 62),
        "room": (158, 112, 74),
    }[name]


def _draw_legs(c: Canvas, doll: Doll, x: int) -> None:
    skin, shoes = SKIN[doll.skin], CLOTH[doll.shoes_color]
    for side, (hip, foot) in zip((-1, 1), LEGS.get(doll.pose, STILL_LEGS), strict=True):
        hip_x, foot_x = x + hip[0], x + foot[0]
        c.limb([(hip_x, hip[1]), (foot_x, foot[1])], 11, skin)
        if doll.bottom in ("trousers", "shorts"):
            end = 1.0 if doll.bottom == "trousers" else 0.45
            knee = (hip_x + (foot_x - hip_x) * end, hip[1] + (foot[1] - 3 - hip[1]) * end)
            c.limb([(hip_x, hip[1]), knee], 14, CLOTH[doll.bottom_color])
        c.ellipse(foot_x + 3 * side, 170, 10, 5.5, shoes, edge=shade(shoes, 0.7))
        c.rectangle(foot_x + 3 * side - 9, 173, foot_x + 3 * side + 9, 175.5, shade(shoes, 0.7))
    if doll.bottom == "skirt":
        skirt = CLOTH[doll.bottom_color]
        c.polygon(
            [(x - 16, 114), (x + 16, 114), (x + 29, 144), (x - 29, 144)],
            skirt,
            edge=shade(skirt, 0.74),
        )
    elif doll.bottom != NONE:
        c.polygon(
            [(x - 16, 114), (x + 16, 114), (x + 16, 124), (x - 16, 124)], CLOTH[doll.bottom_color]
        )


def _draw_torso(c: Canvas, doll: Doll, x: int, cloth: Image.Image) -> None:
    color = CLOTH[doll.top_color]
    edge = shade(color, 0.72)
    c.rectangle(x - 6, 64, x + 6, 80, shade(SKIN[doll.skin], 0.9))
    inset = 6 if doll.top == "vest" else 0
    body = [
        (x - 11, 76),
        (x + 11, 76),
        (x + 24 - inset, 81),
        (x + 17, 104),
        (x + 18, 121),
        (x - 18, 121),
        (x - 17, 104),
        (x - 24 + inset, 81),
    ]
    if doll.top == "dress":
        body[4:6] = [(x + 16, 110), (x + 34, 148), (x - 34, 148), (x - 16, 110)]
    c.polygon(body, cloth, edge=edge)
    if doll.top == "jacket":
        c.polygon([(x - 8, 76), (x + 8, 76), (x + 4, 120), (x - 4, 120)], PAPER, edge=edge)
        c.polygon([(x - 11, 76), (x - 7, 76), (x - 2, 96), (x - 13, 92)], shade(color, 0.8))
        c.polygon([(x + 11, 76), (x + 7, 76), (x + 2, 96), (x + 13, 92)], shade(color, 0.8))
    elif doll.top == "sweater":
        c.rectangle(x - 9, 72, x + 9, 79, shade(color, 0.84))
        c.rectangle(x - 18, 117, x + 18, 122, shade(color, 0.84))
    elif doll.top == "dress":
        c.rectangle(x - 16, 106, x + 16, 111, shade(color, 0.74))
    if doll.top in ("shirt", "vest", "dress"):
        c.chord(x, 75, 9, 8, 0, 180, shade(SKIN[doll.skin], 0.94), edge=edge)


def _draw_arm(c: Canvas, doll: Doll, x: int, arm: Arm) -> None:
    shoulder, elbow, hand = [(x + px, py) for px, py in arm]
    skin, color = SKIN[doll.skin], shade(CLOTH[doll.top_color], 0.86)
    c.limb([shoulder, elbow, hand], 9, skin)
    c.circle(*hand, 6, skin, edge=shade(skin, 0.74))
    sleeve = SLEEVE[doll.top]
    if sleeve == 0.5:
        c.limb([shoulder, ((shoulder[0] + elbow[0]) / 2, (shoulder[1] + elbow[1]) / 2)], 12, color)
    elif sleeve == 1.0:
        wrist = (elbow[0] + (hand[0] - elbow[0]) * 0.72, elbow[1] + (hand[1] - elbow[1]) * 0.72)
        c.limb([shoulder, elbow, wrist], 11, color)


def _draw_held(c: Canvas, doll: Doll, x: int) -> None:
    hand_x, hand_y = x + ARMS[doll.pose][0][2][0], ARMS[doll.pose][0][2][1]
    if doll.held == "balloon":
        c.line([(hand_x, hand_y), (hand_x - 6, 60)], 1.2, INK)
        c.ellipse(hand_x - 6, 40, 15, 18, (236, 64, 72), edge=(176, 40, 56))
        c.polygon([(hand_x - 9, 61), (hand_x - 3, 61), (hand_x - 6, 56)], (176, 40, 56))
        c.ellipse(hand_x - 11, 33, 3.5, 5, (255, 170, 170))
    elif doll.held == "flower":
        c.line([(hand_x + 2, hand_y + 10), (hand_x - 6, hand_y - 22)], 2.4, (56, 140, 70))
        for dx, dy in ((-7, 0), (7, 0), (0, -7), (0, 7)):
            c.circle(hand_x - 7 + dx, hand_y - 28 + dy, 5.4, (250, 130, 190), edge=(206, 84, 148))
        c.circle(hand_x - 7, hand_y - 28, 4.6, (255, 214, 80))
    elif doll.held == "bag":
        c.arc(hand_x, hand_y + 10, 8, 12, 180, 360, 2, (104, 62, 38))
        c.polygon(
            [
                (hand_x - 12, hand_y + 8),
                (hand_x + 12, hand_y + 8),
                (hand_x + 14, hand_y + 28),
                (hand_x - 14, hand_y + 28),
            ],
            (164, 104, 62),
            edge=(104, 62, 38),
        )
        c.rectangle(hand_x - 3, hand_y + 14, hand_x + 3, hand_y + 19, (250, 214, 110))


def _draw_pet(c: Canvas, doll: Doll, x: int) -> None:
    if doll.pet == NONE:
        return
    side = -1 if doll.place == "right" else 1
    px = x + 46 * side
    color = (238, 150, 66) if doll.pet == "cat" else (150, 100, 64)
    edge = shade(color, 0.7)
    if doll.pet == "cat":
        c.arc(px + 14 * side, 156, 8, 14, 90 if side < 0 else 270, 270 if side < 0 else 90, 4, edge)
        c.ellipse(px, 162, 12, 14, color, edge=edge)
        for ear in (-1, 1):
            c.polygon(
                [(px + 3 * ear, 137), (px + 10 * ear, 128), (px + 11 * ear, 142)], color, edge=edge
            )
    else:
        c.limb([(px + 12 * side, 162), (px + 19 * side, 150)], 4, color)
        c.ellipse(px, 163, 14, 12, color, edge=edge)
    c.ellipse(px, 145, 11, 10, color, edge=edge)
    if doll.pet == "dog":
        for ear in (-1, 1):
            c.ellipse(px + 11 * ear, 147, 4, 9, (92, 58, 40))
        c.ellipse(px, 150, 6, 5, (244, 226, 200))
    for eye in (-1, 1):
        c.circle(px + 4 * eye, 143, 1.7, INK)
    c.ellipse(px, 148, 2.2, 1.7, INK)
    for paw in (-1, 1):
        c.ellipse(px + 6 * paw, 174, 4.5, 3, shade(color, 1.3))
