from ._additive import additive_attention as additive_attention
from ._additive import additive_attention_jvp as additive_attention_jvp
from ._additive import additive_attention_vjp as additive_attention_vjp
from ._linear_attention import linear_attention as linear_attention
from ._linear_attention import linear_attention_jvp as linear_attention_jvp
from ._linear_attention import linear_attention_vjp as linear_attention_vjp
from ._linear_attention import recurrent_linear_attention as recurrent_linear_attention
from ._linear_attention import recurrent_linear_attention_jvp as recurrent_linear_attention_jvp
from ._linear_attention import recurrent_linear_attention_vjp as recurrent_linear_attention_vjp
from ._masks import causal_mask as causal_mask
from ._masks import padding_mask as padding_mask
from ._masks import window_mask as window_mask
from ._multi_head import AttentionParams as AttentionParams
from ._multi_head import KVCache as KVCache
from ._multi_head import multi_head_attention as multi_head_attention
from ._multi_head import multi_head_attention_jvp as multi_head_attention_jvp
from ._multi_head import multi_head_attention_vjp as multi_head_attention_vjp
from ._multi_head import repeat_kv as repeat_kv
from ._multi_head import repeat_kv_jvp as repeat_kv_jvp
from ._multi_head import repeat_kv_vjp as repeat_kv_vjp
from ._multiplicative import multiplicative_attention as multiplicative_attention
from ._multiplicative import multiplicative_attention_jvp as multiplicative_attention_jvp
from ._multiplicative import multiplicative_attention_vjp as multiplicative_attention_vjp
from ._scaled_dot_product import attention_scores as attention_scores
from ._scaled_dot_product import attention_scores_jvp as attention_scores_jvp
from ._scaled_dot_product import attention_scores_vjp as attention_scores_vjp
from ._scaled_dot_product import attention_weights as attention_weights
from ._scaled_dot_product import attention_weights_jvp as attention_weights_jvp
from ._scaled_dot_product import attention_weights_vjp as attention_weights_vjp
from ._scaled_dot_product import scaled_dot_product_attention as scaled_dot_product_attention
from ._scaled_dot_product import (
    scaled_dot_product_attention_jvp as scaled_dot_product_attention_jvp,
)
from ._scaled_dot_product import (
    scaled_dot_product_attention_vjp as scaled_dot_product_attention_vjp,
)
from ._statistics import attention_distance as attention_distance
from ._statistics import attention_distance_jvp as attention_distance_jvp
from ._statistics import attention_distance_vjp as attention_distance_vjp
from ._statistics import attention_entropy as attention_entropy
from ._statistics import attention_entropy_jvp as attention_entropy_jvp
from ._statistics import attention_entropy_vjp as attention_entropy_vjp
from ._statistics import attention_rollout as attention_rollout
from ._statistics import attention_rollout_jvp as attention_rollout_jvp
from ._statistics import attention_rollout_vjp as attention_rollout_vjp
from ._statistics import attention_shares as attention_shares
from ._statistics import attention_shares_jvp as attention_shares_jvp
from ._statistics import attention_shares_vjp as attention_shares_vjp
