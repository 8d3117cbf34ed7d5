"""The words that the measures of prose look for: idioms, verbs, openings, and the profile of the function words.

Add an idiom or a verb to this file, and then run `python -m tests.kit.prose --record`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "COMPILED_IDIOMS",
    "FINITE",
    "IDIOMS",
    "NOT_PARTICIPLES",
    "NOUN_HEAD",
    "OPENING",
    "PASSIVE",
    "PILE",
    "PROFILE",
    "RIDDLE",
    "VERBS",
    "WORD",
    "Idiom",
]

WORD = re.compile(r"[A-Za-z][A-Za-z'’\-]*")


class Idiom(NamedTuple):
    """A wording that readers must decode, and its replacement."""

    name: str
    pattern: str
    advice: str
    is_for_first_lines: bool = False
    """True if the idiom counts only in first lines of docstrings, in help, and in cells of tables."""


IDIOMS: tuple[Idiom, ...] = (
    Idiom(
        "one as a noun",
        r"\b(?:the|that|this|each|every|which|another|no|a \w+|the \w+) one\b(?! of (?:the|these|those|"
        r"them)\b)|\bones\b",
        "repeat the noun",
    ),
    Idiom(
        "one that/of/which",
        r"(?<!only )(?<!each )(?<!every )\bone (?:that|which|whose|who|of (?:its|his|your|our|their)|in|with|"
        r"by|from|for)\b",
        "repeat the noun",
    ),
    Idiom(
        "that of / those of",
        r"(?:\b(?:and|or|as|not|but|than|with|by|from|in|for|to|like|is|are|also)|[,:;(]) (?:that|those) of\b",
        "repeat the noun",
    ),
    Idiom(
        "those/that + clause",
        r"\bthose (?:that|which|who|whose|in|around|with|it|they|you|the|a|from|for|which)\b|\b(?:is|are|to|"
        r"of|from|with|for|by|than|as|in|and) that (?:which|in which|for which|of which)\b",
        "repeat the noun",
    ),
    Idiom(
        "what as a noun",
        r"(?:^|[.;:,(] |\b(?:and|or|of|for|from|to|by|with|than|as|at|in|on|is|are|but|holds?|gives?|takes?|"
        r"has|have|that) )[Ww]hat (?!(?:is|are) (?:new|next)\b|happens\b)(?:\w+ )?(?:is|are|was|were|has|have|"
        r"had|it|they|a|an|the|each|every|you|comes?|came|goes|went|stands?|stood|holds?|held|gives?|gave|"
        r"makes?|made|needs?|needed|cannot|can|may|must|does|did|do|happens|changed|becomes|waits?|follows?|"
        r"remains?|runs?|ran|fails?|failed|fits?|belongs?|listens?|leaves?|ends?|ended|brings?|costs?|counts?|"
        r"asks?|reads?|read|says?|said|takes?|took|tells?|told|sends?|sent|somebody|nobody|another|other|"
        r"others|one|no|only|else)\b",
        "name the thing",
    ),
    Idiom(
        "whatever/whichever/whoever",
        r"\b(?:whatever|whichever|whoever|whomever)\b",
        "'any X', or name the actor",
    ),
    Idiom(
        "who for a thing",
        r"(?:^|[.;:,(] |\b(?:and|or|of|for|from|to|by|with) )[Ww]ho (?!(?:you|are you)\b)(?:\w+ )?(?:has|have|"
        r"is|are|waits?|needs?|gives?|asks?|reads?|writes?|can|may|must|holds?|owns?|runs?|wants?|speaks?|"
        r"calls?|does|leaves?|builds?|sends?|knows?)\b",
        "name the actor: 'the caller', 'a client', 'a user'",
    ),
    Idiom(
        "elliptical 'so'",
        r"\b(?:is|are|was|were|be|does|do|did|say|says|said|think|stays?|remains?) so\b(?! (?:that|many|much|"
        r"far|long|few|\w+ (?:that|as)))|\b[Ss]o (?:it |they |he )?(?:is|are|does|do|did|has|have|was|"
        r"were) (?:a|an|the|each|every|it|they)\b|\bnot so\b",
        "repeat the verb",
    ),
    Idiom(
        "'where' for 'if'",
        r"(?:^|[.;:,(\-] |\b(?:and|or|but|only|else|except|even|also) )[Ww]here (?!(?:it comes from|to\b|"
        r"you (?:live|are)|is\b|are\b|do\b|does\b))(?:\w+)",
        "'if' or 'when'",
    ),
    Idiom(
        "'where there is'",
        r"\bwhere(?:ver)? (?:there (?:is|are|was|were)|it is|they are|this is|that is|one is|none|nothing|"
        r"no )\b",
        "'if … exists', 'if …'",
    ),
    Idiom(
        "'as' / 'for' as because",
        r"[,:;] for (?:it|they|there|the|a|an|no|nobody|nothing|who|whoever|what|each|every|some|one|that|"
        r"this|these|those|such)\b(?=(?: \w+){0,3} (?:is|are|was|were|can|cannot|may|has|have|does|do|would|"
        r"will|knows?|needs?|reads?|writes?)\b)",
        "'because'",
    ),
    Idiom(
        "'else' as a clause",
        r"(?:^|[.;:,(] )(?:or )?[Ee]lse,? (?!if\b)(?:it|they|the|a|an|its|each|what|this|that|one|no|nothing|"
        r"there|in|of|by|on|\$?\w+)\b",
        "'otherwise', 'by default'",
    ),
    Idiom(
        "'but for' / 'save'",
        r"\bbut for\b|\bsave for\b|\b(?:nothing|none|nobody|everything|all|any|no \w+) but\b|"
        r"\bno other than\b|\bnothing else\b|\band nothing (?:besides|else)\b",
        "'except', 'only'",
    ),
    Idiom(
        "'besides' / 'beside'",
        r"\bbesides?\b",
        "'also', 'other', 'next to', 'compared with'",
    ),
    Idiom(
        "'meanwhile'",
        r"\bmeanwhile\b",
        "'in the meantime', or say when",
    ),
    Idiom(
        "'shall'",
        r"\bshall\b",
        "'must', 'should', or the present tense",
    ),
    Idiom(
        "'of which/whose' chains",
        r"\b(?:of|in|by|from|to|for|with|at|on|after|before|under|behind|around|through|about|while) (?:which|"
        r"whom|whose)\b",
        "split the sentence",
    ),
    Idiom(
        "'is told' / 'are told'",
        r"\b(?:is|are|was|were|be|been|being) told\b(?! apart)",
        "'X receives', 'X sees', 'fxai tells X'",
    ),
    Idiom(
        "'told apart'",
        r"\b(?:told|tells?|telling) (?:\w+ )?apart\b",
        "'distinguish'",
    ),
    Idiom(
        "'is said' / 'says that'",
        r"\b(?:is|are|was|were|been) said\b|\b(?:it|this|that|which|who) says\b|\bsays? (?:so|not|no|nothing|"
        r"which|what|where|whether|who|how|why)\b|\bsaid (?:so|to|by|of)\b",
        "'states', 'returns', 'specifies', 'shows'",
    ),
    Idiom(
        "'is asked' for a model",
        r"\b(?:is|are|was|were|be|been|being) asked\b",
        "'fxai calls the model', 'the request goes to'",
    ),
    Idiom(
        "'is given' / 'gives' for return",
        r"\b(?:is|are|was|were|be|been|being) given\b|\bgiven (?:to|by|for|back|again)\b",
        "'receives', 'returns', 'passes'",
    ),
    Idiom(
        "'gives' for returns/provides",
        r"\b(?:gives?|gave)\b(?! (?:up|you|way)\b)",
        "'returns', 'produces', 'provides', 'pass'",
    ),
    Idiom(
        "'stands' / 'stood' for is",
        r"\b(?:stands?|stood|standing)\b(?! (?:for|alone|by|out|still)\b)",
        "'is', 'is stored in', 'appears', 'remains'",
    ),
    Idiom(
        "'stands still/for'",
        r"\bstands? still\b",
        "'has stopped', 'is idle'",
    ),
    Idiom(
        "'goes on' / 'go on'",
        r"\b(?:go|goes|going|gone|went) on\b",
        "'continues', 'resumes'",
    ),
    Idiom(
        "'comes' for arrives/is",
        r"\b(?:comes?|came|coming)\b(?! (?:from|with|first|back|in handy)\b)",
        "'arrives', 'is', 'becomes'",
    ),
    Idiom(
        "'what becomes of'",
        r"\b(?:becomes?|became) of\b|\bcame of\b|\bcomes? of\b|\bcame to\b|\bcomes? to\b",
        "'what happens to', 'the result of'",
    ),
    Idiom(
        "'holds' for contains/is true",
        r"\b(?:holds?|held)\b(?! (?:back|up|on)\b)",
        "'contains', 'stores', 'checks', 'is true', 'applies'",
    ),
    Idiom(
        "'takes away' / 'taken out'",
        r"\b(?:takes?|took|taken|taking) (?:away|out|off)\b",
        "'removes'",
    ),
    Idiom(
        "'put' / 'puts there'",
        r"\bputs? (?:there|back|in|into|behind|together|before|on)\b",
        "'adds', 'assembles', 'inserts'",
    ),
    Idiom(
        "'keep/kept' for store",
        r"\b(?:is|are|was|were|be) kept\b|\bkept (?:in|by|for|as|until|there|with|from|there)\b",
        "'stored', 'saved'",
    ),
    Idiom(
        "'is to be' / 'are to be'",
        r"\b(?:is|are|was|were) (?:not )?to (?:be|have|go|run|come|take|hold|give|count|survive|trust|stay|"
        r"see|read)\b",
        "'must', 'should'",
    ),
    Idiom(
        "'is left' / 'leaves' for exits",
        r"\b(?:is|are|was|were|be) left\b|\bleft (?:out|from|by|open|over|to|behind)\b|\bleaves? (?:it|them|"
        r"the run|out|no|\w+ (?:open|out))\b|\bleave (?:it|them|\w+ out|out)\b",
        "'omits', 'exits', 'suspends', 'remains'",
    ),
    Idiom(
        "'is due' / 'is up' / 'is over'",
        r"\b(?:time|times|it|run|round|turn) (?:is|was|are) (?:up|over|due|spent|there)\b|\btime was up\b",
        "'the deadline has passed', 'has ended'",
    ),
    Idiom(
        "'there' / 'here' as a place",
        r"(?<![Ff]rom )\b(?:is|are|was|were|be|has|have|had|stands?|lies?|of|to|in|and|until|up to|which|"
        r"known|kept|put|found|written) (?:there|here)\b(?! (?:is|are|was|were|may|can|must|a|an|to)\b)",
        "name the place",
    ),
    Idiom(
        "'is no' / 'are no' / 'has no'",
        r"\b(?:is|are|was|were|be) no\b(?! (?:longer|more|need|such|other)\b)",
        "'is not a'",
    ),
    Idiom(
        "'none' / 'nothing' / 'nobody' as an actor",
        r"(?:^|[.;:,(] |\b(?:and|or|where|but|so|if|that|which) )(?:[Nn]one|[Nn]othing|[Nn]obody|"
        r"[Nn]o one) (?:is|are|was|were|can|may|has|have|does|do|of|runs?|reads?|sees?|knows?|goes|comes|"
        r"stands?|waits?|happens|needs?|else|in|supplies|stops?)\b",
        "say who does not do it",
    ),
    Idiom(
        "'any more' / 'no more'",
        r"\b(?:any more|no more|not any more|nothing any more)\b(?! than)",
        "'no longer'",
    ),
    Idiom(
        "'behind' for after",
        r"\b(?:right )?behind (?!(?:a|the) (?:proxy|firewall|load balancer|scenes|flag))\b",
        "'after'",
    ),
    Idiom(
        "'in front of' / 'before' for prefix",
        r"\bin front of\b",
        "'before'",
    ),
    Idiom(
        "'around' for enclosing",
        r"\b(?:the \w+ around(?! (?:the|a|it|this|that|your|each|handlers)\b)|one around|is around|around it|"
        r"goes around|stands around|stood around)\b",
        "'the enclosing X', 'wraps'",
    ),
    Idiom(
        "'at once'",
        r"\bat once\b",
        "'immediately', or 'at the same time'",
    ),
    Idiom(
        "'in silence' / 'unasked' / 'in vain'",
        r"\bin silence\b|\bunasked\b|\bin vain\b|\bfor nothing\b|\bin a row\b|\bby itself\b",
        "'silently', 'without approval'",
    ),
    Idiom(
        "'anew' / 'likewise' / 'thereby' / 'thus' / 'hence' / 'whence' / 'therein'",
        r"\b(?:anew|likewise|thereby|thus|hence|whence|therein|thereof|whereby|wherein|thereupon|whose like|"
        r"lest|albeit|nay|ere|thence)\b",
        "'again', 'also', 'so'",
    ),
    Idiom(
        "'of its own' / 'of your own'",
        r"\bof (?:its|their|his|your|our|my|one's) own\b",
        "'its own X', 'a separate X'",
    ),
    Idiom(
        "'X of Y's'",
        r"\bof (?:yours|ours|theirs|theirs|others|hers|his|mine)\b|\bof (?:\w+'s)(?=[\s]*(?:[.,;:)]|$|\b(?:is|"
        r"are|has|and|or|that|which|with)\b))",
        "'your X', 'Y's X'",
    ),
    Idiom(
        "'as' + clause for manner",
        r"\bas (?:it|they|he|she) (?:is|are|was|were|stands?|did|does|comes?|came|goes)\b|\bas \w+ (?:does|do|"
        r"did)\b(?! not)",
        "'the way', 'unchanged', 'like'",
    ),
    Idiom(
        "'how many/much/often/long' as a heading",
        r"^[Hh]ow (?:many|much|often|long|far|old|deep)\b",
        "'Number of …', 'Seconds …', 'Maximum …'",
        is_for_first_lines=True,
    ),
    Idiom(
        "'where/who/when/which' as a heading",
        r"^(?:[Ww]here|[Ww]ho|[Ww]hen|[Ww]hich|[Ww]hy|[Ww]hose)\b(?!.*\?)",
        "a noun phrase: 'Path of …', 'Time of …'",
        is_for_first_lines=True,
    ),
    Idiom(
        "'begun' / 'begins' for start",
        r"\bbegun\b|\bbegins? (?:it|anew|with|where|again|here)\b",
        "'started', 'starts'",
    ),
    Idiom(
        "'made of' / 'made from' / 'made by'",
        r"\b(?:is|are|was|were) made\b|\bmade (?:of|out of|anew|again|into)\b",
        "'builds', 'creates'",
    ),
    Idiom(
        "'as long as' / 'as far as' / 'as soon as'",
        r"\b(?:as|so) (?:far|long) as\b|\b(?:as|so) (?:far|long) (?:it|they|again)\b",
        "'while', 'up to the point'",
    ),
    Idiom(
        "'world' / 'house' / 'room' / 'floor' / 'face'",
        r"\b(?:the house|rooms?|floors?|(?:a|the|its|whose|each|every|of|by) faces?|faces (?:offer|list|are)|"
        r"face (?:offers|lists))\b",
        "'package', 'layer', 'public names'",
    ),
    Idiom(
        "'it is known' / 'is not known'",
        r"\b(?:is|are|was|were) (?:not )?known\b|\bknown (?:only )?(?:to|at|when)\b",
        "'fxai knows', 'unknown'",
    ),
    Idiom(
        "'to the last' / 'to its end' / 'in the end'",
        r"\bto (?:its|the|their) (?:end|last \w+)\b",
        "'completely', 'finishes'",
    ),
    Idiom(
        "'asks for' of things",
        r"\b(?:that|which|it|they|type|types|what) (?:asks?|wants?|wish(?:es)?|speaks?|knows?|hears?|"
        r"remembers?)\b",
        "'requires', 'supports', 'has'",
    ),
    Idiom(
        "'lets through' / 'lets run'",
        r"\blets? (?:\w+ ){0,3}(?:through|run|in|pass|go)\b",
        "'allows', 'permits'",
    ),
    Idiom(
        "'each of its own' / 'all its parts'",
        r"\ball (?:its|their|the) (?:parts|like)\b|\ba noun\b|\bin a line\b",
        "say which",
    ),
    Idiom(
        "'that is wrong' / 'in order' for valid",
        r"\b(?:in order(?! (?:to|that|of|in)\b)|out of order|not in order)\b",
        "'valid', 'invalid'",
    ),
    Idiom(
        "'somebody' / 'anybody' / 'nobody'",
        r"\b(?:somebody|anybody|nobody|everybody|someone)\b",
        "'a user', 'the caller', 'another process'",
    ),
    Idiom(
        "'such' for this kind",
        r"\b(?:[Ss]uch (?:a|an) \w+ (?:is|are|has|may|can)|no such\b(?! (?:file|option|tool|run|order))|"
        r"as such|such as it|[Ss]uch (?:things?|ones?|parts?))\b",
        "'this kind of', name it",
    ),
    Idiom(
        "'None where' / 'none where'",
        r"\b[Nn]one,? (?:where|for (?:one|none|what))\b|[;:,] (?:empty|else|none|None):",
        "'None if …'",
    ),
    Idiom(
        "'known of' / 'what is known'",
        r"\bknown of\b|\bwhat is (?:known|there|said|left|new|old|due|wrong|meant|asked|given|kept|held)\b",
        "name the data",
    ),
    Idiom(
        "'wrong with'",
        r"\bis wrong(?: with)?\b|\bgo(?:es)? wrong\b",
        "'invalid', 'the error', 'fails'",
    ),
    Idiom(
        "'makes of' / 'does with'",
        r"\b(?:makes?|made) (?:one|of (?:it|them|the|a|an))\b|\bdoes with\b",
        "'converts to', 'builds'",
    ),
    Idiom(
        "'inside of' / 'outside of'",
        r"\b(?:in|out)side of\b",
        "'inside', 'outside'",
    ),
    Idiom(
        "'without end' / 'to the end'",
        r"\bwithout (?:end|any)\b",
        "'indefinitely', 'without limit'",
    ),
    Idiom(
        "'(so) many' / 'that many' / 'of several'",
        r"\b(?:so|that|this|as) many \w+(?! as)\b|\bof (?:several|one)\b(?! of)",
        "the number, or 'multiple'",
    ),
    Idiom(
        "'texts' / 'a text'",
        r"\btexts\b|\ba text\b",
        "'strings', 'a string', 'the text'",
    ),
    Idiom(
        "'of one' / 'one name' / 'one place'",
        r"\b(?:have|has|of|by|under|in) one (?:name|id|key|process|kind|place|turn|run|model|tool)\b",
        "'the same name', 'a single X'",
    ),
    Idiom(
        "'in words' / 'a line' / 'by name'",
        r"\bin words\b|\b(?:object|entry|fact|term) a line\b|\bonce a \w+\b",
        "'as text', 'per line'",
    ),
    Idiom(
        "'to the place' / 'in its place'",
        r"\bin (?:the|its|their|his|your) place\b|\bin place of\b|\ball over again\b",
        "'instead of', 'replaces'",
    ),
    Idiom(
        "'runs anew' / 'is run'",
        r"\b(?:is|are|was|were|be) run\b",
        "'runs'",
    ),
    Idiom(
        "'that wait(s)'",
        r"\b(?:that|which|who|calls?|what|still) waits?\b|\bwaits? on\b",
        "'pending'",
    ),
    Idiom(
        "'shows' / 'looks' like fault terms",
        r"\bfaults?\b(?! tolera)",
        "'error', 'problem' (a validation error)",
    ),
)

COMPILED_IDIOMS = tuple((idiom, re.compile(idiom.pattern, re.MULTILINE)) for idiom in IDIOMS)

_IRREGULAR = """
    asked begun bound bought broken brought built caught chosen cut done drawn driven eaten fallen fed felt
    found forgotten frozen given gone got grown heard held hidden hit kept known laid led left lent let lost
    made meant met paid put read ridden run said seen sent set shown shut sold spent split spoken stolen struck
    stuck taken taught thought thrown told understood won worn written rewritten overridden overwritten undone
    reset resent withdrawn
"""

IRREGULAR = _IRREGULAR.split()
"""Irregular participles; regular participles end in -ed."""

_NOT_PARTICIPLES = "bed embed exceed feed hundred indeed need nested red seed shared speed typed"

NOT_PARTICIPLES = frozenset(_NOT_PARTICIPLES.split())
"""Words in -ed that are not participles."""

PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being|get|gets|got)"
    r"(?: (?:not|never|also|only|always|still|then|already|first|again|ever|all|both|n't|\w+ly))*"
    rf" ((?:\w+ed)|(?:{'|'.join(IRREGULAR)}))\b",
    re.IGNORECASE,
)

PILE = re.compile(
    r"\b(?:what|whatever|whoever|who|whom|whose|which|those (?=that|which|who|of|it|they)|that which|"
    r"the ones?\b|ones?(?= (?:that|which|whose|of|who|in|with|from|by))|that(?= of\b)|where(?!as))\b",
    re.IGNORECASE,
)
"""Words that start a relative clause. Two in a sentence are a pile-up."""

RIDDLE = re.compile(
    r"^(?:what|whatever|where|wherever|who|whoever|whose|which|when|while|why|how|that|those|these|this|it|"
    r"its|they|their|he|his|she|as|if|because|since|so|such|for|from|of|in|on|at|by|with|without|under|until|"
    r"after|before|behind|between|around|beside|besides|to|into|one|ones|the same|the other|the one|the ones|"
    r"the rest|the next|nothing|none|nobody|somebody|here|there|also|and|or|but|not|never|only|again|even|"
    r"once|is|are|was|were|has|have|had|may|can|cannot|must|will|would|should)\b",
    re.IGNORECASE,
)
"""First words of a docstring that names neither a thing nor an action."""

OPENING = re.compile(
    r"^(?:what (?!happens|does|is (?:new|next))|whatever|whoever|whose|where |who (?!.*\?)|which (?!.*\?)|"
    r"that (?:is|which|was|does|holds|one)|those|these are|such|so (?:it|they|the|a)|as (?!a |an |the result|"
    r"well|with|of|soon)|one (?!of|way|option|exception)|ones|it is (?!possible|recommended|important|also|"
    r"not)|it has|there (?:is|are|was|were|it|they|he)|here (?:it|they)|none|nothing|nobody|no one|somebody|"
    r"else|of |to whom|in which|by which|for (?:it|they|there|no)|not (?!all|supported|every)|only (?:what|"
    r"where|those)|and |or )",
    re.IGNORECASE,
)
"""First words of a sentence that hide its subject."""

NOUN_HEAD = re.compile(
    r"^(?:the|a|an|all|any|each|every|no|some|both|other|another|how|\d|two|three|four|its)\b",
    re.IGNORECASE,
)
"""First words of a phrase that names a thing."""

_VERBS = """
    abort accept access acquire add advance advise align allow answer append apply approve arrange ask assemble
    assert assign attach authenticate authorize await back base become begin bind block borrow break bring
    broadcast buffer build bump bundle cache calculate call cancel capture carry cast catch chain change charge
    check choose chunk claim clean clear clip clone close coerce collapse collect combine commit compare compile
    complete compose compress compute concat concatenate configure confirm connect construct consume contain
    continue contribute control convert copy correct count cover create cut deal debug decide declare decode
    decompress decorate decrease default defer define delay delegate delete deliver denote deny depend derive
    describe deserialize destroy detach detect determine differ disable discard disconnect dispatch display
    divide do download drain drive drop dump echo embed emit emulate enable encode encounter end enforce enqueue
    ensure enter enumerate erase escape establish estimate evaluate exclude execute exhaust exist exit expand
    expect expire explain export expose extend extract fail fall feed fetch fill filter find finish fit fix flag
    flatten flush fold follow force fork form format forward free freeze fulfil fulfill gather generate get give
    go group grow guarantee guard handle hash have help hide hold hook hydrate identify ignore implement import
    include increase increment indicate infer inherit init initialize inject insert inspect install instantiate
    instruct intend interpret interrupt intersect invoke iterate join journal judge keep kill know label launch
    lay lead learn leave let lift limit link lint list listen load locate lock log look loop lower make manage
    map mark mask match measure merge migrate mirror mix mock modify monitor mount move name narrow need negate
    negotiate normalise normalize note notify obtain offer omit open order overlay override overwrite own pack
    pad pair parse partition pass patch pause peek perform permit persist pick pin ping pipe place plan play
    poll pop populate post prefix prepare prepend present preserve press prevent print process produce prompt
    propagate protect prove provide prune publish pull purge push put query queue quote raise reach read rebuild
    receive recommend recompute reconnect record recover redirect reduce refer reflect refresh refund refuse
    register reject relate relay release reload remain remember remind remove rename render renew reopen reorder
    repair repeat replace replay reply report represent request require reserve reset resolve respond restart
    restore restrict resume retain retrieve retry return reuse reverse revert rewind rewrite roll rotate round
    route run sample sanitize satisfy save scan schedule scroll seal search see select send separate sequence
    serialize serve set settle shield show shrink shut shutdown sign signal simulate skip sleep slice solve sort
    spawn specify speed spend split spread stack stand start state stay step stop store stream strip subclass
    submit subscribe substitute subtract sum summarise summarize supply support suppress suspend swap switch
    synchronize tag take talk tap tell terminate test throw tie time toggle track transform translate traverse
    trigger trim truncate try tune turn unbind undo uninstall union unite unpack unregister unwrap update
    upgrade upload use validate verify view visit wait wake walk want warn watch work wrap write yield zip
"""

VERBS = frozenset(_VERBS.split())
"""Verbs that can start the docstring of a function."""

_FINITE = """
    is are was were am be been has have had do does did can could may might must shall should will would cannot
    isn't aren't wasn't doesn't don't didn't can't won't shouldn't it's that's there's let's you're you'll we're
    they're came went gave took made ran told said held kept knew saw sent got began left found became wrote
    read put set cut let need needs means mean
"""

FINITE = frozenset(_FINITE.split())
"""Finite verbs that are not in `VERBS`."""

_PROFILE = """
    a:31.5:2.25 about:0.63:0.25 after:0.89:0.61 again:0.23:0.25 all:3.16:1.33 also:2.74:1.57 an:6.93:1.87
    and:17.33:3.68 any:2.57:0.57 are:5.4:1.49 as:7.16:1.79 at:1.68:0.45 be:8.02:2.49 because:1.01:0.77
    been:1.02:1.21 before:1.02:0.85 but:2.29:1.21 by:4.25:1.27 can:6.66:2.19 cannot:0.78:0.8 do:1.65:1.09
    does:1.47:0.62 each:1.05:0.85 else:0.15:0.25 for:15.01:2.51 from:5.29:2.09 had:0.13:0.25 has:2.74:1.42
    have:2.84:2.47 how:1.38:1.06 if:7.93:5.42 in:10.59:2.61 into:1.58:0.56 is:16.73:3.46 it:10.16:5.35
    its:2.33:1.83 may:1.07:0.85 more:2.02:0.83 must:0.73:0.27 no:1.88:1.01 none:0.72:0.96 not:4.87:1.32
    nothing:0.41:0.4 of:14.9:3.52 on:6.39:1.75 once:0.76:0.29 one:3.02:1.28 only:2.7:1.08 or:8.24:2.14
    other:2.14:0.92 otherwise:0.63:0.25 out:0.74:0.35 own:1.05:0.77 same:1.74:0.59 should:1.79:1.24 so:2.81:2.28
    some:1.41:1 such:0.89:0.71 than:1.19:0.54 that:12.13:3.35 the:52.74:18.93 their:0.71:0.34 them:1.41:0.76
    then:1.26:0.54 there:1.11:0.43 these:1.14:0.28 they:1.2:0.62 this:9.64:3.07 those:0.37:0.32 to:31.57:6.5
    under:0.27:0.31 until:0.46:0.57 up:0.73:0.26 use:5.74:1.94 used:3.07:1 using:2.7:1.77 was:1.27:0.68
    were:0.32:0.25 what:1.13:0.68 when:4.11:1.24 where:0.79:0.4 whether:0.93:1.06 which:2.72:0.74
    while:0.91:0.36 who:0.08:0.25 whose:0.38:0.5 will:4.03:1.85 with:10.35:4.56 within:0.4:0.35
    without:1.17:0.35 would:0.88:0.38 you:9.48:4.74 your:2.73:1.94
"""

PROFILE: dict[str, tuple[float, float]] = {
    word: (float(mean), float(deviation)) for word, mean, deviation in (entry.split(":") for entry in _PROFILE.split())
}
"""Mean and deviation of each function word, per 1,000 words of docs and docstrings in five libraries.

The libraries are anyio, attrs, httpx, returns, and pydantic-ai. Authors choose these words without thought, so
synonyms hardly change the profile.
"""
