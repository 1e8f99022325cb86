import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra [pyg])")

from graphtemper_research.models import losses  # noqa: E402


def test_losses_are_their_formulas():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 4, (50,), generator=generator)
    p = torch.softmax(logits, 1)[torch.arange(50), labels]
    expected = {
        "cross-entropy": -p.log(),
        "focal": -((1 - p) ** 3) * p.log(),
        "gcl": -(1 + 0.1 * p) * p.log(),
    }
    assert set(expected) == set(losses.LOSSES)
    for name, values in expected.items():
        torch.testing.assert_close(losses.named(name)(logits, labels), values.mean())
    strong = losses.named("focal", 5.0)(logits, labels)
    torch.testing.assert_close(strong, (-((1 - p) ** 5) * p.log()).mean())


@pytest.mark.parametrize("loss", ["cross-entropy", "focal", "gcl"])
def test_losses_have_finite_gradients_where_the_model_is_certain(loss):
    logits = torch.tensor([[200.0, 0.0], [-200.0, 0.0]], requires_grad=True)
    gamma = None if loss == "cross-entropy" else 0.5
    losses.named(loss, gamma)(logits, torch.tensor([0, 0])).backward()
    assert torch.isfinite(logits.grad).all()
