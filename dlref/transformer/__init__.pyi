from ._blocks import DecoderBlockParams as DecoderBlockParams
from ._blocks import EncoderBlockParams as EncoderBlockParams
from ._blocks import NormParams as NormParams
from ._blocks import decoder_block as decoder_block
from ._blocks import decoder_block_jvp as decoder_block_jvp
from ._blocks import decoder_block_vjp as decoder_block_vjp
from ._blocks import dropout_mask as dropout_mask
from ._blocks import encoder_block as encoder_block
from ._blocks import encoder_block_jvp as encoder_block_jvp
from ._blocks import encoder_block_vjp as encoder_block_vjp
from ._budget import MultiplicationCounts as MultiplicationCounts
from ._budget import ParameterCounts as ParameterCounts
from ._budget import multiplication_counts as multiplication_counts
from ._budget import parameter_counts as parameter_counts
from ._classifier import SequenceClassifierParams as SequenceClassifierParams
from ._classifier import init_sequence_classifier as init_sequence_classifier
from ._classifier import sequence_classifier as sequence_classifier
from ._classifier import sequence_classifier_jvp as sequence_classifier_jvp
from ._classifier import sequence_classifier_loss as sequence_classifier_loss
from ._classifier import sequence_classifier_loss_grad as sequence_classifier_loss_grad
from ._classifier import (
    sequence_classifier_loss_value_and_grad as sequence_classifier_loss_value_and_grad,
)
from ._classifier import sequence_classifier_vjp as sequence_classifier_vjp
from ._configuration import LanguageModelConfig as LanguageModelConfig
from ._configuration import LanguageModelParams as LanguageModelParams
from ._configuration import init_language_model as init_language_model
from ._encoder_decoder import EncoderDecoderParams as EncoderDecoderParams
from ._encoder_decoder import encoder_decoder_generate as encoder_decoder_generate
from ._encoder_decoder import encoder_decoder_model as encoder_decoder_model
from ._encoder_decoder import encoder_decoder_model_jvp as encoder_decoder_model_jvp
from ._encoder_decoder import encoder_decoder_model_loss as encoder_decoder_model_loss
from ._encoder_decoder import encoder_decoder_model_loss_grad as encoder_decoder_model_loss_grad
from ._encoder_decoder import (
    encoder_decoder_model_loss_value_and_grad as encoder_decoder_model_loss_value_and_grad,
)
from ._encoder_decoder import encoder_decoder_model_vjp as encoder_decoder_model_vjp
from ._encoder_decoder import encoder_decoder_weights as encoder_decoder_weights
from ._encoder_decoder import init_encoder_decoder_model as init_encoder_decoder_model
from ._feed_forward import FeedForwardParams as FeedForwardParams
from ._feed_forward import GatedFeedForwardParams as GatedFeedForwardParams
from ._feed_forward import feed_forward as feed_forward
from ._feed_forward import feed_forward_jvp as feed_forward_jvp
from ._feed_forward import feed_forward_vjp as feed_forward_vjp
from ._feed_forward import gated_feed_forward as gated_feed_forward
from ._feed_forward import gated_feed_forward_jvp as gated_feed_forward_jvp
from ._feed_forward import gated_feed_forward_vjp as gated_feed_forward_vjp
from ._generation import beam_search as beam_search
from ._generation import generate as generate
from ._generation import next_token_probabilities as next_token_probabilities
from ._language_model import LanguageModelTrace as LanguageModelTrace
from ._language_model import language_model as language_model
from ._language_model import language_model_jvp as language_model_jvp
from ._language_model import language_model_loss as language_model_loss
from ._language_model import language_model_loss_grad as language_model_loss_grad
from ._language_model import (
    language_model_loss_value_and_grad as language_model_loss_value_and_grad,
)
from ._language_model import language_model_trace as language_model_trace
from ._language_model import language_model_vjp as language_model_vjp
from ._stacks import decoder as decoder
from ._stacks import decoder_jvp as decoder_jvp
from ._stacks import decoder_vjp as decoder_vjp
from ._stacks import encoder as encoder
from ._stacks import encoder_jvp as encoder_jvp
from ._stacks import encoder_vjp as encoder_vjp
from ._storage import load_params as load_params
from ._storage import save_params as save_params
from ._tasks import addition_task as addition_task
from ._tasks import associative_recall_task as associative_recall_task
from ._tasks import copy_task as copy_task
from ._tasks import reverse_task as reverse_task
