"""The block DCT: both forms against oracles that share no code with them, the inverse, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.fft import dctn

from faceblind import DataError
from faceblind.frequency.bands import bands, dct_matrix, resampling
from faceblind.frequency.bdct import bdct, bdct_direct, channel_names, dc_of, flip_coefficients, inverse_bdct
from faceblind.frequency.planes import FROM_RGB, TO_RGB, to_images, to_planes


def faces(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)


def oracle(image, block, up):
    """Loops, scipy's DCT and interpolation by numpy.interp."""
    r, g, b = (image[..., c].astype(float) for c in range(3))
    y = 0.299 * r + 0.587 * g + 0.114 * b
    planes = [y - 128, (b - y) / 1.772, (r - y) / 1.402]
    height, width = y.shape
    found = []
    for plane in planes:
        at = np.linspace(0, width - 1, width * up)
        wide = np.array([np.interp(at, np.arange(width), line) for line in plane])
        at = np.linspace(0, height - 1, height * up)
        large = np.array([np.interp(at, np.arange(height), line) for line in wide.T]).T
        m, n = large.shape[0] // block, large.shape[1] // block
        out = np.zeros((block * block, m, n))
        for i in range(m):
            for j in range(n):
                cut = large[i * block : (i + 1) * block, j * block : (j + 1) * block]
                out[:, i, j] = dctn(cut, norm="ortho").ravel()
        found.append(out[1:])
    return np.concatenate(found)


@given(
    height=st.integers(1, 12),
    width=st.integers(1, 12),
    up=st.integers(1, 9),
    block=st.integers(1, 9),
    keep=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_the_separable_form_equals_the_direct_one(height, width, up, block, keep):
    images = faces(height * 13 + width, 2, height, width)
    if (height * up) % block or (width * up) % block:
        with pytest.raises(DataError, match="do not divide"):
            bdct(images, block=block, up=up)
        return
    direct = bdct_direct(images, block=block, up=up, keep_dc=keep)
    assert direct.shape == (2, 3 * (block**2 - (not keep)), height * up // block, width * up // block)
    np.testing.assert_allclose(bdct(images, block=block, up=up, keep_dc=keep), direct, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("block", "up", "size"), [(8, 8, (5, 7)), (4, 8, (6, 3)), (8, 4, (4, 6)), (1, 1, (2, 2))])
def test_both_forms_equal_loops_over_blocks(block, up, size):
    images = faces(1, 1, *size)
    expected = oracle(images[0], block, up)
    for form in (bdct, bdct_direct):
        np.testing.assert_allclose(form(images, block=block, up=up)[0], expected, atol=1e-9)


def test_the_paper_shape_and_the_channel_order():
    found = bdct(faces(2, 1, 112, 112))
    assert found.shape == (1, 189, 112, 112)
    names = channel_names()
    assert len(names) == 189
    assert (names[0], names[7], names[62], names[63], names[-1]) == ("Y(0,1)", "Y(1,0)", "Y(7,7)", "Cb(0,1)", "Cr(7,7)")
    # A vertical edge changes along the horizontal frequencies only.
    edge = np.zeros((1, 16, 16, 3), np.uint8)
    edge[:, :, 8:] = 200
    energy = np.square(bdct(edge)[0]).sum(axis=(1, 2))
    seen = {name for name, value in zip(names, energy, strict=True) if value > 1e-12}
    assert seen <= {f"Y(0,{v})" for v in range(8)}
    assert "Y(0,1)" in seen


def test_grey_images_have_no_chroma_and_flat_images_only_dc():
    grey = np.repeat(faces(3, 1, 9, 9)[..., :1], 3, axis=3)
    assert np.abs(bdct(grey)[:, 63:]).max() < 1e-9
    flat = np.full((1, 9, 9, 3), 77, np.uint8)
    assert np.abs(bdct(flat)).max() < 1e-9
    assert np.allclose(dc_of(flat)[:, 0], 8 * (77 - 128))


def test_planes_are_those_of_jfif():
    np.testing.assert_allclose(FROM_RGB @ TO_RGB, np.eye(3), atol=1e-14)
    red = to_planes(np.array([[[[255, 0, 0]]]], np.uint8))[0, :, 0, 0]
    np.testing.assert_allclose(red, [0.299 * 255 - 128, -0.299 / 1.772 * 255, 127.5])
    images = faces(4, 2, 3, 4)
    np.testing.assert_allclose(to_images(to_planes(images)), images, atol=1e-10)


@pytest.mark.parametrize("keep", [True, False])
def test_with_its_dc_the_inverse_gives_the_enlarged_and_reduced_image(keep):
    images = faces(5, 2, 7, 10)
    given = bdct(images, keep_dc=keep)
    back = inverse_bdct(given, (7, 10), dc=None if keep else dc_of(images), clip=False)
    rows = resampling(56, 7) @ resampling(7, 56)
    columns = resampling(80, 10) @ resampling(10, 80)
    expected = np.einsum("hy,byxc,wx->bhwc", rows, images.astype(float), columns)
    np.testing.assert_allclose(back, expected, atol=1e-9)
    # With the ends aligned the small grid is part of neither the large one nor its reduction: only nearly the image.
    assert (
        np.abs(inverse_bdct(given, (7, 10), dc=None if keep else dc_of(images)) - np.clip(expected, 0, 255)).max()
        < 1e-9
    )


def test_without_dc_an_image_and_a_brighter_one_look_the_same():
    images = faces(6, 1, 8, 8) // 2
    a, b = (inverse_bdct(bdct(i), (8, 8), clip=False) for i in (images, images + 60))
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_blocks_keep_the_energy_of_the_enlarged_image():
    images = faces(7, 1, 6, 6)
    planes = to_planes(images)
    large = resampling(6, 48) @ planes @ resampling(6, 48).T
    assert np.square(bdct(images, keep_dc=True)).sum() == pytest.approx(np.square(large).sum())


def test_neighbouring_blocks_share_pixels_so_only_the_mean_is_lost():
    # What the paper calls irreversible: stacked AC operators of an axis lose constants and nothing else.
    stacked = bands(28).matrix[1:].reshape(-1, 28)
    assert np.linalg.matrix_rank(stacked) == 27
    assert np.abs(stacked @ np.ones(28)).max() < 1e-12


@given(n=st.integers(1, 20), m=st.integers(1, 40))
@settings(deadline=None, max_examples=40)
def test_resampling_keeps_lines_straight(n, m):
    line = np.arange(n, dtype=float)
    expected = np.linspace(0, n - 1, m) if m > 1 else np.zeros(1)
    np.testing.assert_allclose(resampling(n, m) @ line, expected, atol=1e-9)
    np.testing.assert_allclose(resampling(n, m).sum(axis=1), 1)


def test_the_dct_is_orthonormal():
    for block in (1, 2, 5, 8):
        np.testing.assert_allclose(dct_matrix(block) @ dct_matrix(block).T, np.eye(block), atol=1e-12)


@pytest.mark.parametrize("form", [bdct, bdct_direct])
def test_bad_images(form):
    with pytest.raises(DataError, match=r"RGB of shape"):
        form(np.zeros((4, 4, 3)))
    with pytest.raises(DataError, match="not finite"):
        form(np.full((1, 4, 4, 3), np.nan))
    with pytest.raises(DataError, match="at least 1"):
        form(np.zeros((1, 4, 4, 3)), block=0)


@given(height=st.integers(1, 8), width=st.integers(1, 8), block=st.sampled_from([1, 2, 4, 8]), keep=st.booleans())
@settings(deadline=None, max_examples=30)
def test_a_flip_of_the_coefficients_is_that_of_the_image(height, width, block, keep):
    if block == 1 and not keep:
        return
    images = faces(height * 11 + width, 2, height, width)
    given, expected = (bdct(i, block=block, keep_dc=keep) for i in (images, images[:, :, ::-1]))
    np.testing.assert_allclose(flip_coefficients(given, block=block), expected, atol=1e-9)
    torch = pytest.importorskip("torch")
    from faceblind.frequency.torch_bdct import BlockDCT

    module = BlockDCT((height, width), block=block, keep_dc=keep)
    np.testing.assert_allclose(module.flip(torch.from_numpy(given)).numpy(), expected, atol=1e-9)


def test_bad_coefficients():
    with pytest.raises(DataError, match=r"189 or 192"):
        flip_coefficients(np.zeros((1, 188, 4, 4)))
    with pytest.raises(DataError, match=r"189 or 192"):
        flip_coefficients(np.zeros((189, 4, 4)))
    with pytest.raises(DataError, match=r"189 or 192"):
        inverse_bdct(np.zeros((1, 188, 4, 4)), (4, 4))
    with pytest.raises(DataError, match="dc must be"):
        inverse_bdct(np.zeros((1, 189, 4, 4)), (4, 4), dc=np.zeros((1, 3, 4, 5)))


@given(height=st.integers(2, 9), width=st.integers(2, 9), up=st.sampled_from([2, 4, 8]), keep=st.booleans())
@settings(deadline=None, max_examples=25)
def test_tensors_give_what_arrays_give(height, width, up, keep):
    torch = pytest.importorskip("torch")
    from faceblind.frequency.torch_bdct import BlockDCT

    images = faces(height, 2, height, width)
    if (height * up) % 4 or (width * up) % 4:
        return
    module = BlockDCT((height, width), block=4, up=up, keep_dc=keep)
    pixels = torch.from_numpy(images.transpose(0, 3, 1, 2).astype(np.float32))
    expected = bdct(images, block=4, up=up, keep_dc=keep)
    found = module(pixels)
    assert tuple(found.shape[1:]) == module.shape
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-3)
    exact = BlockDCT((height, width), block=4, up=up, keep_dc=keep, dtype=torch.float64)
    np.testing.assert_allclose(exact(pixels.double()).numpy(), expected, rtol=0, atol=1e-10)
    # What an accelerator runs, which here only other types of number do.
    gathered = exact._gathered(exact.planes(pixels.double()).flatten(0, 1)).reshape(found.shape)
    np.testing.assert_allclose(gathered.numpy(), expected, rtol=0, atol=1e-10)
    rough = module(pixels.to(torch.bfloat16))
    assert rough.dtype is torch.bfloat16
    np.testing.assert_allclose(rough.float().numpy(), expected, atol=0.05 * np.abs(expected).max(initial=1))
    np.testing.assert_allclose(exact.dc(pixels.double()).numpy(), dc_of(images, block=4, up=up), rtol=0, atol=1e-10)
    assert not module.state_dict()
    dc = None if keep else module.dc(pixels)
    back = module.inverse(found, dc).permute(0, 2, 3, 1).numpy()
    given = None if keep else dc_of(images, block=4, up=up)
    np.testing.assert_allclose(back, inverse_bdct(expected, (height, width), block=4, up=up, dc=given), atol=2e-3)


def test_enlarging_is_the_interpolation_of_torch():
    torch = pytest.importorskip("torch")
    images = faces(8, 1, 6, 5)
    pixels = torch.from_numpy(to_planes(images))
    large = torch.nn.functional.interpolate(pixels, scale_factor=8, mode="bilinear", align_corners=True).numpy()
    np.testing.assert_allclose(resampling(6, 48) @ to_planes(images) @ resampling(5, 40).T, large, atol=1e-9)
    small = torch.nn.functional.interpolate(
        torch.from_numpy(large), scale_factor=1 / 8, mode="bilinear", align_corners=True
    ).numpy()
    np.testing.assert_allclose(resampling(48, 6) @ large @ resampling(40, 5).T, small, atol=1e-9)


def test_no_gradient_goes_back_to_pixels_but_one_goes_through_the_inverse():
    torch = pytest.importorskip("torch")
    from faceblind.frequency.torch_bdct import BlockDCT

    module = BlockDCT((4, 4))
    pixels = torch.full((1, 3, 4, 4), 90.0, requires_grad=True)
    assert not module(pixels).requires_grad
    coefficients = torch.zeros((1, 189, 4, 4), requires_grad=True)
    module.inverse(coefficients).sum().backward()
    assert coefficients.grad is not None
    assert coefficients.grad.abs().max() > 0
    with pytest.raises(DataError, match="floats"):
        module(torch.zeros((1, 3, 4, 5)))
    with pytest.raises(DataError, match="floats"):
        module(torch.zeros((1, 3, 4, 4), dtype=torch.uint8))
