"""The names that `import turnwise` offers, for type checkers and editors."""

from turnwise.api.evaluation import Evaluation as Evaluation
from turnwise.api.exploring import explore as explore
from turnwise.api.playing import evaluate as evaluate
from turnwise.api.playing import play as play
from turnwise.api.playing import print_episode as print_episode
from turnwise.api.playing import rollout as rollout
from turnwise.api.run import Run as Run
from turnwise.api.run import load_run as load_run
from turnwise.api.training import sft as sft
from turnwise.api.training import train as train
from turnwise.api.vocabulary import Answer as Answer
from turnwise.api.vocabulary import CallFailed as CallFailed
from turnwise.api.vocabulary import EnvironmentDown as EnvironmentDown
from turnwise.api.vocabulary import FollowUp as FollowUp
from turnwise.api.vocabulary import Matcher as Matcher
from turnwise.api.vocabulary import Message as Message
from turnwise.api.vocabulary import Mistake as Mistake
from turnwise.api.vocabulary import ModelUser as ModelUser
from turnwise.api.vocabulary import Recipe as Recipe
from turnwise.api.vocabulary import ScriptedUser as ScriptedUser
from turnwise.api.vocabulary import StoredEpisode as StoredEpisode
from turnwise.api.vocabulary import Task as Task
from turnwise.api.vocabulary import ToolCall as ToolCall
from turnwise.api.vocabulary import ToolResult as ToolResult
from turnwise.api.vocabulary import Trajectory as Trajectory
from turnwise.api.vocabulary import Truth as Truth
from turnwise.api.vocabulary import Unavailable as Unavailable
from turnwise.api.vocabulary import UserRule as UserRule
from turnwise.rewards.terms import answer as answer
from turnwise.rewards.terms import efficiency as efficiency
from turnwise.rewards.terms import error_rate as error_rate
from turnwise.rewards.terms import forbidden_tools as forbidden_tools
from turnwise.rewards.terms import format as format
from turnwise.rewards.terms import judge as judge
from turnwise.rewards.terms import milestones as milestones
from turnwise.rewards.terms import outcome as outcome
from turnwise.rewards.terms import probes as probes
from turnwise.rewards.terms import required_tools as required_tools
from turnwise.rewards.terms import weighted as weighted
from turnwise.rewards.terms import writes as writes

__version__: str
