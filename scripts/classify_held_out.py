"""Opens a checkpoint in a new process through the Auto classes and classifies the test split of the demo's task.

python scripts/classify_held_out.py runs/demo/best
"""

import sys

import torch
from transformers import AutoModelForSequenceClassification

import hf_longseq
from hf_longseq import DataCollatorWithLongPadding


def main(checkpoint: str) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    splits, spec = hf_longseq.load_task("spoken-tones")
    collate, test = DataCollatorWithLongPadding.from_task(spec), splits["test"]
    predicted = []
    with torch.no_grad():
        for start in range(0, len(test), 64):
            batch = collate([test[i] for i in range(start, min(start + 64, len(test)))])
            predicted += model(**batch).logits.argmax(-1).tolist()
    names, truth = model.config.id2label, [int(label) for label in test["labels"]]
    for index in range(0, len(test), len(test) // 8):
        mark = "right" if predicted[index] == truth[index] else "WRONG"
        print(f"  recording {index:3d}: said {names[truth[index]]:7s} heard {names[predicted[index]]:7s} {mark}")
    right = sum(p == t for p, t in zip(predicted, truth, strict=True))
    print(f"  {right} of {len(truth)} held-out recordings right ({100 * right / len(truth):.1f} %)")


if __name__ == "__main__":
    main(sys.argv[1])
