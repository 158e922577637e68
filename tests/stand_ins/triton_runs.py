"""One inference of the fake Triton server: input tensors in, responses out."""

from collections.abc import Iterator, Mapping, Sequence

from tests.stand_ins.triton_models import (
    END_ID,
    SIZE,
    Model,
    Value,
    Values,
    Wanted,
    continuation,
    ids_of,
    logits_of,
    logprob_of,
    text_of,
)

Tensors = Mapping[str, Values]
Response = dict[str, Values]


def run(model: Model, tensors: Tensors) -> list[Response]:
    """Return one response per answer or, streamed, per token. Raises the model's ValueErrors."""
    if model.kind == "llmapi":
        return _llmapi(tensors)
    prompt, wanted = _asked(model, tensors)
    streaming = _flag(tensors, "stream" if model.kind == "text" else "streaming")
    if streaming and not model.decoupled:
        raise ValueError("Streaming is only supported if model is deployed using decoupled mode.")
    if wanted.bound < 1:
        raise ValueError("max_tokens must be a single value > 0")
    beams = _int(tensors, "beam_width", 1)
    answers = _int(tensors, "num_return_sequences", beams)
    if beams > 1:
        if answers > beams:
            raise ValueError("numReturnSequences must not be over beamWidth")
        sequences = [_sequence(prompt, wanted, beam) for beam in range(answers)]
        return [_response(model, tensors, prompt, sequences, None)]
    found: list[Response] = []
    for place in range(answers):
        ids = _sequence(prompt, wanted, place)
        index = place if answers > 1 else None
        if streaming:
            found += _streamed(model, tensors, prompt, ids, index)
        else:
            found.append(_response(model, tensors, prompt, [ids], index))
    return found


def _llmapi(tensors: Tensors) -> list[Response]:
    """Return responses with all text so far, without the stop string; the last has the reason."""
    stops = _strings(tensors, "sampling_param_stop")
    prompt = str(tensors["text_input"].items[0])
    wanted = Wanted(
        bound=_int(tensors, "sampling_param_max_tokens", 32),
        seed=_int(tensors, "sampling_param_seed", 0),
        end_id=END_ID,
        stop_text=stops,
    )
    ids = continuation(ids_of(prompt), wanted)
    text = text_of(ids)
    found = next((stop for stop in stops if stop and text.endswith(stop)), "")
    before = "" if _flag(tensors, "sampling_param_exclude_input_from_output") else prompt
    places = range(1, len(ids) + 1) if _flag(tensors, "streaming") and ids else (len(ids),)
    responses: list[Response] = []
    for place in places:
        last = place == len(ids)
        shown = text_of(ids[:place]).removesuffix(found if last else "")
        response = {"text_output": _text(before + shown)}
        reason = "stop" if found or len(ids) < wanted.bound else "length"
        if _flag(tensors, "return_finish_reason"):
            response["finish_reason"] = _text(reason if last else "None")
        if _flag(tensors, "return_stop_reason"):
            response["stop_reason"] = _text(found if last and found else "None")
        responses.append(response)
    return responses


def _text(text: str) -> Values:
    return Values(datatype="BYTES", shape=(1,), items=[text])


def _asked(model: Model, tensors: Tensors) -> tuple[list[int], Wanted]:
    seed = _int(tensors, "seed", 0)
    minimum = _int(tensors, "min_tokens", 0)
    if model.kind == "text":
        return ids_of(str(tensors["text_input"].items[0])), Wanted(
            bound=_int(tensors, "max_tokens", 0),
            seed=seed,
            minimum=minimum,
            end_id=_int(tensors, "end_id", END_ID),
            stop_text=_strings(tensors, "stop_words"),
            bad_text=_strings(tensors, "bad_words"),
        )
    prompt = _ids(tensors["input_ids"])[: _int(tensors, "input_lengths", 0)]
    if not prompt:
        raise ValueError("Invalid format for input_ids")
    return prompt, Wanted(
        bound=_int(tensors, "request_output_len", 0),
        seed=seed,
        minimum=minimum,
        end_id=_int(tensors, "end_id", -1),
        stop=_words(tensors, "stop_words_list"),
        bad=_words(tensors, "bad_words_list"),
    )


def _sequence(prompt: list[int], wanted: Wanted, place: int) -> list[int]:
    """Generate answers; each further answer or beam uses the next seed."""
    return continuation(
        prompt,
        Wanted(
            bound=wanted.bound,
            seed=wanted.seed + place,
            end_id=wanted.end_id,
            minimum=wanted.minimum,
            stop=wanted.stop,
            bad=wanted.bad,
            stop_text=wanted.stop_text,
            bad_text=wanted.bad_text,
        ),
    )


def _streamed(
    model: Model, tensors: Tensors, prompt: list[int], ids: list[int], index: int | None
) -> Iterator[Response]:
    """Return one token per response; a stream never contains the prompt, and is never empty."""
    if not ids:
        yield _response(model, tensors, prompt, [[]], index, echo=False)
    for place, token in enumerate(ids):
        response = _response(model, tensors, prompt, [[token]], index, echo=False)
        if model.accumulate:
            response["text_output"] = _strings_out([text_of(ids[: place + 1])])
        yield response


def _response(
    model: Model,
    tensors: Tensors,
    prompt: list[int],
    sequences: list[list[int]],
    index: int | None,
    *,
    echo: bool = True,
) -> Response:
    """Return the answer, with the prompt unless the request excludes it."""
    before = prompt if echo and not _flag(tensors, "exclude_input_in_output") else []
    whole = [[*before, *ids] for ids in sequences]
    longest = max(len(ids) for ids in whole)
    response: Response = {}
    if model.kind == "text":
        response["text_output"] = _strings_out([text_of(ids) for ids in whole])
    else:
        padded: list[Value] = [x for ids in whole for x in (*ids, *[-1] * (longest - len(ids)))]
        response["output_ids"] = Values(
            datatype="INT32", shape=(1, len(whole), longest), items=padded
        )
        response["sequence_length"] = Values(
            datatype="INT32", shape=(1, len(whole)), items=[len(ids) for ids in whole]
        )
    _add_scores(response, tensors, prompt, sequences)
    for name, count in (
        ("num_input_tokens", len(prompt)),
        ("num_output_tokens", sum(map(len, whole))),
    ):
        if _flag(tensors, f"return_{name}"):
            response[name] = _single(count)
    if index is not None:
        response["sequence_index"] = _single(index)
    return response


def _add_scores(
    response: Response, tensors: Tensors, prompt: list[int], sequences: list[list[int]]
) -> None:
    """Return log probabilities of the beams, padded with -1, and logits."""
    beams, longest = len(sequences), max(len(ids) for ids in sequences)
    if _flag(tensors, "return_log_probs"):
        each = [[logprob_of(token) for token in ids] for ids in sequences]
        sums: list[Value] = [sum(one) for one in each]
        response["cum_log_probs"] = Values(datatype="FP32", shape=(1, beams), items=sums)
        padded: list[Value] = [x for one in each for x in (*one, *[-1.0] * (longest - len(one)))]
        response["output_log_probs"] = Values(
            datatype="FP32", shape=(1, beams, longest), items=padded
        )
    if _flag(tensors, "return_context_logits"):
        response["context_logits"] = Values(
            datatype="FP32",
            shape=(1, len(prompt), SIZE),
            items=[x for token in prompt for x in logits_of(token)],
        )
    if _flag(tensors, "return_generation_logits"):
        rows = [x for ids in sequences for token in ids for x in logits_of(token)]
        pads = sum(longest - len(ids) for ids in sequences)
        response["generation_logits"] = Values(
            datatype="FP32",
            shape=(1, beams, longest, SIZE),
            items=[*rows, *[0.0] * (pads * SIZE)],
        )


def _single(value: int) -> Values:
    return Values(datatype="INT32", shape=(1, 1), items=[value])


def _strings_out(texts: Sequence[str]) -> Values:
    return Values(datatype="BYTES", shape=(1, len(texts)), items=list(texts))


def _int(tensors: Tensors, name: str, default: int) -> int:
    return int(tensors[name].items[0]) if name in tensors else default


def _flag(tensors: Tensors, name: str) -> bool:
    return name in tensors and bool(tensors[name].items[0])


def _strings(tensors: Tensors, name: str) -> list[str]:
    return [str(one) for one in tensors[name].items] if name in tensors else []


def _ids(values: Values) -> list[int]:
    return [int(one) for one in values.items]


def _words(tensors: Tensors, name: str) -> list[list[int]]:
    """Read [1, 2, K]: the ids of all words, then the end of each; the row is padded with -1."""
    if name not in tensors:
        return []
    both = _ids(tensors[name])
    ids, ends = both[: len(both) // 2], both[len(both) // 2 :]
    words: list[list[int]] = []
    start = 0
    for end in ends:
        if end == -1:
            continue
        if end <= start or end > len(ids):
            raise ValueError("Sparse list must not have out-of-bound offsets")
        words.append(ids[start:end])
        start = end
    return words
