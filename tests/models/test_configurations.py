"""Names of configuration fields: those of the state-space literature are understood, mistyped ones are refused."""

import pytest

from hf_longseq import CNNConfig, DLRConfig, LongTransformerConfig, LRUConfig, MegaConfig, S4Config, S5Config

WITH_STATE = [S4Config, DLRConfig, S5Config, LRUConfig]


@pytest.mark.parametrize("config_class", [*WITH_STATE, LongTransformerConfig, MegaConfig, CNNConfig])
def test_d_model_and_n_layers_are_understood(config_class):
    config = config_class(d_model=32, n_layers=3)
    assert (config.hidden_size, config.num_hidden_layers, config.d_model) == (32, 3, 32)


@pytest.mark.parametrize("config_class", WITH_STATE)
def test_d_state_is_understood(config_class):
    assert config_class(d_state=8).state_size == 8


def test_aliases_are_saved_under_the_names_of_transformers(tmp_path):
    S4Config(d_model=32).save_pretrained(tmp_path)
    assert "d_model" not in (tmp_path / "config.json").read_text()
    assert S4Config.from_pretrained(tmp_path).hidden_size == 32


@pytest.mark.parametrize(
    "name, meant", [("hiden_size", "hidden_size"), ("state_sizes", "state_size"), ("norms", "norm")]
)
def test_a_mistyped_field_is_refused_with_what_was_meant(name, meant):
    with pytest.raises(ValueError, match=f"S4Config has no field '{name}'; did you mean '{meant}'"):
        S4Config(**{name: 8})


def test_names_of_transformers_and_notes_of_your_own_are_kept():
    config = S4Config(num_labels=3, num_beams=2, sep_token_id=5, torch_dtype="float32", laboratory="ours")
    assert config.num_labels == 3 and config.laboratory == "ours"
