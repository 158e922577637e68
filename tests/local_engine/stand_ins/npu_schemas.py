"""Signatures of torch_npu 2.13.0, as its libraries register them; data for the stand-in."""

SCHEMAS: dict[str, str] = {
    "npu_rms_norm": "(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)",
    "npu_add_rms_norm": (
        "(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)"
    ),
    "npu_rotary_mul": (
        "(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor"
    ),
    "npu_swiglu": "(Tensor self, int dim=-1) -> Tensor",
    "npu_scatter_pa_kv_cache": (
        "(Tensor key, Tensor value, Tensor(a!) key_cache, Tensor(b!) value_cache,"
        " Tensor slot_mapping, *, Tensor? compress_lens=None, Tensor? compress_seq_offsets=None,"
        " Tensor? seq_lens=None, str? cache_mode='PA_NZ') -> ()"
    ),
    "npu_fused_infer_attention_score": (
        "(Tensor query, Tensor key, Tensor value, *, Tensor? pse_shift=None,"
        " Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None,"
        " SymInt[]? actual_seq_lengths_kv=None, Tensor? dequant_scale1=None,"
        " Tensor? quant_scale1=None, Tensor? dequant_scale2=None, Tensor? quant_scale2=None,"
        " Tensor? quant_offset2=None, Tensor? antiquant_scale=None, Tensor? antiquant_offset=None,"
        " Tensor? block_table=None, Tensor? query_padding_size=None, Tensor? kv_padding_size=None,"
        " Tensor? key_antiquant_scale=None, Tensor? key_antiquant_offset=None,"
        " Tensor? value_antiquant_scale=None, Tensor? value_antiquant_offset=None,"
        " Tensor? key_shared_prefix=None, Tensor? value_shared_prefix=None,"
        " SymInt[]? actual_shared_prefix_len=None, Tensor? query_rope=None,"
        " Tensor? key_rope=None, Tensor? key_rope_antiquant_scale=None, int num_heads=1,"
        " float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647,"
        ' str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0,'
        " int inner_precise=0, int block_size=0, int antiquant_mode=0,"
        " int key_antiquant_mode=0, int value_antiquant_mode=0, bool softmax_lse_flag=False)"
        " -> (Tensor, Tensor)"
    ),
    "npu_fused_infer_attention_score_v2": (
        "(Tensor query, Tensor key, Tensor value, *, Tensor? query_rope=None,"
        " Tensor? key_rope=None, Tensor? pse_shift=None, Tensor? atten_mask=None,"
        " SymInt[]? actual_seq_qlen=None, SymInt[]? actual_seq_kvlen=None,"
        " Tensor? block_table=None, Tensor? dequant_scale_query=None,"
        " Tensor? dequant_scale_key=None, Tensor? dequant_offset_key=None,"
        " Tensor? dequant_scale_value=None, Tensor? dequant_offset_value=None,"
        " Tensor? dequant_scale_key_rope=None, Tensor? quant_scale_out=None,"
        " Tensor? quant_offset_out=None, Tensor? learnable_sink=None, int num_query_heads=1,"
        " int num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647,"
        ' int next_tokens=2147483647, str input_layout="BSH", int sparse_mode=0,'
        " int block_size=0, int query_quant_mode=0, int key_quant_mode=0,"
        " int value_quant_mode=0, int inner_precise=0, bool return_softmax_lse=False,"
        " int? query_dtype=None, int? key_dtype=None, int? value_dtype=None,"
        " int? query_rope_dtype=None, int? key_rope_dtype=None) -> (Tensor, Tensor)"
    ),
    "npu_top_k_top_p": "(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor",
    "npu_top_k_top_p_sample": (
        "(Tensor logits, Tensor top_k, Tensor top_p, Tensor? q=None, float? eps=1e-08,"
        " bool? is_need_logits=False, int? top_k_guess=32, Tensor? min_ps=None,"
        " int? ks_max=1024, bool? input_is_logits=True, str? post_sample='qSample',"
        " Generator? generator=None) -> (Tensor, Tensor)"
    ),
}
