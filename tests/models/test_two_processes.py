"""Batch norm over two processes is that of the whole batch: outputs, running statistics and input gradients."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from hf_longseq.models.longseq_layers import LongSeqBatchNorm


def whole_batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(4, 6, 5, generator=generator) for _ in range(2))
    valid = torch.ones(4, 6)
    valid[0, 3:] = valid[3, 1:] = 0
    return x, weight, valid


def normalise(x: torch.Tensor, weight: torch.Tensor, valid: torch.Tensor) -> dict[str, torch.Tensor]:
    norm = LongSeqBatchNorm(5, eps=1e-5)
    norm.reset_parameters()
    x = x.clone().requires_grad_()
    out = norm(x, valid)
    (out * weight * valid[..., None]).sum().backward()
    return {"out": out.detach(), "grad": x.grad, "mean": norm.running_mean, "var": norm.running_var}


def one_of_two(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    x, weight, valid = whole_batch()
    part = slice(2 * rank, 2 * rank + 2)
    torch.save(normalise(x[part], weight[part], valid[part]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_two_processes_normalise_like_one(tmp_path):
    # copies of this process import nothing again; where a GPU is in use there are none
    method = "spawn" if torch.cuda.is_available() else "fork"
    mp.start_processes(one_of_two, args=(str(tmp_path),), nprocs=2, start_method=method)
    one = normalise(*whole_batch())
    two = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1)]
    for name in ("out", "grad"):
        torch.testing.assert_close(torch.cat([part[name] for part in two]), one[name], atol=1e-6, rtol=1e-5)
    for name in ("mean", "var"):
        for part in two:
            torch.testing.assert_close(part[name], one[name])
