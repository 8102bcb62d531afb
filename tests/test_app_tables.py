"""Tables of other forms in the app: wide ones, and several files of one study."""

import json

import pytest
from app_server import RunningApp
from test_app import check_repeated, ended, looked_at, started

from vhem.app.preview import look
from vhem.app.settings import ChoiceError, checked_roles, explicit_roles, table_arguments


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    running = RunningApp(tmp_path_factory.mktemp("app"))
    yield running
    running.close()


def write_lives(path, n=16, moments=8, words=("school", "work"), before=""):
    """Write a wide table: half of the people change early, half late."""
    header = f"id,sex,weight,{','.join(f'{before}{k + 1}' for k in range(moments))}\n"
    people = [[words[t > (1, 5)[k % 2]] for t in range(moments)] for k in range(n)]
    path.write_text(header + "".join(f"p{k},{'mf'[k % 3 > 0]},1.5,{','.join(row)}\n" for k, row in enumerate(people)))
    return path


def test_a_wide_table_is_recognised(tmp_path):
    found = look(write_lives(tmp_path / "lives.csv", before="age "), {}, whole=True)
    assert found["problem"] is None
    assert found["roles"]["wide"] == [["state", "age 1", "age 8"]]
    assert (found["facts"]["sequences"], found["facts"]["longest"]) == (16, 8)
    assert found["channels"][0]["categories"] == ["school", "work"]
    assert found["notes"] == []
    assert look(tmp_path / "lives.csv", {"long": True}, whole=True)["facts"]["longest"] == 1  # as the user says


def test_codes_in_a_wide_table_are_asked_about(tmp_path):
    path = write_lives(tmp_path / "codes.csv", words="12", before="a")
    found = look(path, {}, whole=True)
    assert "only 2 different whole numbers" in found["notes"][0]
    found = look(path, {"wide": [["work", "a1", "a8"]], "categories": ["work"], "id": ["id"]}, whole=True)
    assert (found["channels"][0]["categories"], found["notes"]) == (["1", "2"], [])


def test_a_wide_table_becomes_the_command(tmp_path):
    understood = look(
        write_lives(tmp_path / "lives.csv", before="m"), {"weights": "weight", "wide": [["s", "m1", "m8"]]}, True
    )
    table = {"file": "lives.csv", "roles": {}, "understood": understood["roles"]}
    said = table_arguments(explicit_roles(table))
    assert said == ["--id=id", "--categories=s", "--weights=weight", "--wide=s=m1:m8"]


@pytest.mark.parametrize("wide", [
    [["a", "x1"]], "x", [["", "x1", "x2"]], [["a=b", "x1", "x2"]], [["a", "x:1", "x2"]], [["a", 1, 2]],
    [["a", "x1", "x2"], ["a", "y1", "y2"]],
])  # fmt: skip
def test_odd_series_are_refused(wide):
    with pytest.raises(ChoiceError):
        checked_roles({"wide": wide})


def sent(app, path):
    return json.loads(app.ask("POST", f"/api/data?name={path.name}", path.read_bytes())[2])["id"]


@pytest.mark.parametrize(("header", "lines", "roles", "people"), [
    ("x,y", ["1,2", "3,4"], {"id": ["file"]}, None),
    ("trial,x", ["1,2", "1,3", "2,5", "2,6"], {"id": ["file", "trial"], "group": "file"}, 3),
    ("subject,trial,x", ["{k},1,2", "{k},1,3"], {}, 3),
])  # fmt: skip
def test_files_of_one_study_become_one_table(app, tmp_path, header, lines, roles, people):
    parts = []
    for k in range(3):
        path = tmp_path / f"person{k}.csv"
        path.write_text("\n".join([header, *lines]).format(k=k) + "\n")
        parts.append(sent(app, path))
    data = app.post("/api/stack", {"data": parts})["id"]
    assert app.get(f"/api/data/{data}")["roles"] == roles
    found = looked_at(app, data)
    assert (found["problem"], found["facts"]["people"]) == (None, people)
    assert found["facts"]["rows"] == 3 * len(lines)
    assert app.ask("GET", f"/api/data/{parts[0]}")[0] == 404  # they are parts of the new one now


def test_files_with_other_columns_are_not_put_together(app, tmp_path):
    (tmp_path / "a.csv").write_text("id,x\na,1\n")
    (tmp_path / "b.csv").write_text("id,y\na,1\n")
    parts = [sent(app, tmp_path / "a.csv"), sent(app, tmp_path / "b.csv")]
    code, _, told = app.ask("POST", "/api/stack", {"data": parts})
    assert code == 400
    assert "join them instead" in told.decode()
    app.post(f"/api/data/{parts[0]}/join", {"data": parts[1:]})
    found = looked_at(app, parts[0])
    assert (found["problem"], found["roles"]["values"]) == (None, ["a", "b"])
    app.post(f"/api/data/{parts[0]}/separate")
    assert looked_at(app, parts[0])["roles"]["values"] == ["x"]


def test_joined_wide_tables_are_run_and_repeated_from_the_zip(app, tmp_path, monkeypatch, capsys):
    work = write_lives(tmp_path / "work.csv", before="m")
    home = write_lives(tmp_path / "home.csv", before="m", words=("parents", "own"))
    data = sent(app, work)
    app.post(f"/api/data/{data}/join", {"data": [sent(app, home)]})
    found = app.post(
        f"/api/data/{data}/look", {"roles": {"wide": [["s", "m1", "m8"]], "weights": "weight"}, "keep": True}
    )
    assert (found["problem"], found["roles"]["values"]) == (None, ["work", "home"])
    run = started(app, data)
    ended(app, run)
    check_repeated(app, run, tmp_path / "again", monkeypatch, capsys)
