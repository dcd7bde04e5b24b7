"""Opens the golden files of the reference implementation."""

import json
from pathlib import Path

import torch
from safetensors import safe_open


def load_golden(name: str) -> tuple[dict[str, torch.Tensor], dict]:
    """Tensors and the sizes and options of one golden file."""
    with safe_open(Path(__file__).parent / "golden" / f"{name}.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["meta"])


def relative_error(value: torch.Tensor, expected: torch.Tensor) -> float:
    """Norm of the deviation over the norm of what was expected."""
    return (torch.linalg.vector_norm(value - expected) / torch.linalg.vector_norm(expected)).item()


def golden_leaves(golden: dict[str, torch.Tensor], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The reference's parameters as leaves of a graph, under the reference's names."""
    return {key[len("param.") :]: x.to(dtype).requires_grad_() for key, x in golden.items() if "param." in key}
