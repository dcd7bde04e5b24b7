from hf_longseq.comparison.arms import ARMS, arch_label, canonical, from_scratch, is_tied, rank, style


def test_names_are_as_people_say_them():
    names = [
        "transformer@position_embedding=sinusoidal",
        "s4@bidirectional=false",
        "hf:modernbert",
        "s4@init_normal=0.1",
    ]
    assert [arch_label(name) for name in names] == [
        "transformer, sinusoidal", "S4, not bidirectional", "modernbert", "S4, init normal 0.1"
    ]  # fmt: skip
    assert style("spt-masked@span_length=8").label == "self-pretrained, masked, span length 8"
    assert style("spt-causal@direction=one").label == "self-pretrained, causal, one direction"
    assert style("spt-causal@direction=both").label == "self-pretrained, causal, both directions"
    assert style("scratch-tied@epochs").heading == "equal budget" and is_tied("scratch-tied@flops")


def test_an_arm_keeps_its_colour_in_its_variants():
    for init in ARMS:
        assert style(f"{init}@a=1").colour == style(init).colour == ARMS[init].colour


def test_an_objective_of_the_recipe_names_the_arm():
    assert canonical("spt@mask_ratio=0.5", "masked") == "spt-masked@mask_ratio=0.5"
    assert canonical("scratch", None) == "scratch" and from_scratch("scratch@direction=one")


def test_arms_stand_in_one_order_and_variants_after_them_by_their_numbers():
    inits = ["other", "spt-causal", "spt-masked@n=100", "spt-masked@n=20", "spt-masked", "scratch-tied", "scratch"]
    assert sorted(inits, key=rank) == [
        "scratch", "scratch-tied", "spt-masked", "spt-masked@n=20", "spt-masked@n=100", "spt-causal", "other"
    ]  # fmt: skip
