"""What might the news wire of the sample market say? Hand-written templates; every place is real, no event is.

Five sorts. `ARCS` are the stages of a planted crisis: a tremor before, the shock, the aftermath, relief. `SIMMER` is
genuine risk of a lower grade that moves nothing. `ALARMS` are grave and genuine, yet the market shrugs. `DECOYS`
use the vocabulary of danger and carry none: negation, metaphor, anniversaries, sport, fiction, drills. `PLAIN` is
the rest of a newspaper. A slot in braces is filled from `SLOTS`, or with a place of the arc's region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

Pick = Callable[[Sequence[str]], str]  # one of them, at random

WIRES: Final = ("Meridian Wire", "Harbour News Agency", "Continental Desk", "The Ledger", "Overnight Brief")

SLOTS: Final[Mapping[str, Sequence[str]]] = {
    "n": ("two", "three", "four", "six", "nine", "a dozen"),
    "pct": ("2", "3", "4", "6", "8", "11"),
    "years": ("10", "15", "20", "25", "30", "40", "50", "80"),
    "sector": ("chipmaker", "retailer", "carmaker", "airline", "insurer", "brewer", "lender", "shipbuilder"),
    "good": (
        "steel",
        "soybeans",
        "batteries",
        "machine tools",
        "solar panels",
        "fertiliser",
        "semiconductors",
    ),
    "city": (
        "Leeds",
        "Osaka",
        "Denver",
        "Lyon",
        "Cape Town",
        "Recife",
        "Brisbane",
        "Gdansk",
        "Toronto",
        "Pune",
    ),
    "team": (
        "Rovers",
        "Athletic",
        "the Falcons",
        "the Mariners",
        "United",
        "the Comets",
        "Rangers",
        "the Bulls",
    ),
    "bank": ("the central bank", "the monetary committee", "the rate-setting board"),
    "quarter": ("first-quarter", "second-quarter", "third-quarter", "full-year"),
}

PLACES: Final[Mapping[str, Sequence[str]]] = {
    "middle_east": ("Iran", "Israel", "Yemen", "Lebanon", "Syria", "Iraq"),
    "europe": ("Ukraine", "Moldova", "Kosovo", "Belarus", "Poland", "Latvia"),
    "asia_pacific": ("Taiwan", "North Korea", "the Philippines", "Myanmar", "Pakistan", "Japan"),
    "americas": ("Venezuela", "Colombia", "Mexico", "Haiti", "Ecuador", "Guyana"),
    "africa": ("Sudan", "Mali", "Niger", "Ethiopia", "Libya", "Somalia"),
}

# theme -> stage -> templates. `place` is drawn once per arc, so that a crisis stays where it began.
ARCS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "gulf": {
        "tremor": (
            "{place} warns it will close the Strait of Hormuz if tankers are boarded again",
            "Warships shadow convoy as {place} threatens retaliation over seized tanker",
            "{place} moves missile batteries to the coast, satellite images show",
            "Embassies tell citizens to leave {place} at once as talks collapse",
        ),
        "shock": (
            "Missiles hit oil terminal in {place}; crude loading halted",
            "{place} launches air strikes on Gulf export facilities, tankers turn back",
            "Explosions at refinery in {place} as cross-border attack kills {n}",
            "Strait of Hormuz closed to shipping after {place} fires on convoy",
        ),
        "aftermath": (
            "Second night of air strikes in {place}; oil exporters declare force majeure",
            "{place} vows further attacks as death toll rises to {n}",
            "Insurers suspend war-risk cover for tankers off {place}",
        ),
        "relief": (
            "Ceasefire in {place} holds; tankers resume loading",
            "{place} and neighbours sign truce, ports reopen",
        ),
    },
    "strait": {
        "tremor": (
            "Live-fire zones declared around {place} without notice; flights rerouted",
            "{place} reports record number of warplanes across the median line",
            "Troops near {place} cancel leave as landing craft assemble, officials say",
        ),
        "shock": (
            "Naval blockade of {place} announced; chip shipments stop",
            "Missile lands off {place} after warships exchange fire",
            "{place} mobilises reserves after troops land on outlying island",
        ),
        "aftermath": (
            "Blockade of {place} enters second day; allies send carrier group",
            "Export of {good} through {place} halted as shelling continues",
            "{place} says {n} sailors killed in clash at sea",
        ),
        "relief": (
            "Blockade of {place} lifted after emergency summit",
            "Warships withdraw from waters off {place}",
        ),
    },
    "eastern": {
        "tremor": (
            "Troops mass on the border of {place}, observers report",
            "{place} accuses neighbour of sabotage after pipeline rupture",
            "{place} calls emergency session over incursion of armed drones",
        ),
        "shock": (
            "Tanks cross into {place} before dawn; air raid sirens in the capital",
            "Invasion of {place} begins with missile attack on power grid",
            "Shelling of border towns in {place} kills {n}; alliance invokes consultation",
        ),
        "aftermath": (
            "{place} declares martial law as fighting reaches second city",
            "New sanctions on energy exports follow attack on {place}",
            "Air strikes on {place} cut power to a million homes",
        ),
        "relief": ("{place} and its neighbour agree to pull back heavy weapons",),
    },
    "tariff": {
        "tremor": (
            "Washington weighs blanket tariffs on {good} from {place}",
            "{place} threatens to retaliate as trade talks with Washington break down",
        ),
        "shock": (
            "Washington imposes 60 percent tariffs on imports from {place}, effective at midnight",
            "{place} bans exports of {good} in retaliation for sanctions",
            "Trade war widens: {place} freezes foreign assets, ports stop clearing {good}",
        ),
        "aftermath": (
            "{place} hits back with tariffs on {good}; suppliers warn of shortages",
            "Sanctions on {place} extended to its largest banks",
        ),
        "relief": ("Washington and {place} suspend tariffs for 90 days",),
    },
    "coup": {
        "tremor": (
            "Gunfire heard near presidential palace in {place}, residents say",
            "General dismissed in {place} as army units refuse orders",
        ),
        "shock": (
            "Soldiers in {place} seize state television and declare coup",
            "Coup in {place}: president detained, borders and airports closed",
        ),
        "aftermath": (
            "Junta in {place} suspends oil and uranium exports",
            "Protesters killed in {place} as junta imposes curfew",
        ),
        "relief": ("Junta in {place} agrees to hand power to civilians",),
    },
    "cyber": {
        "tremor": ("Security agencies warn of imminent cyberattack on {place} power operators",),
        "shock": (
            "Cyberattack shuts payment system across {place}; banks close branches",
            "Power grid in {place} down after state-backed hackers breach control rooms",
        ),
        "aftermath": ("{place} blames foreign state for cyberattack, promises retaliation",),
        "relief": ("Payment system in {place} fully restored after cyberattack",),
    },
    # Rates shocks come out of a meeting, not out of a region: the macro agent sees them, the news has no danger in it.
    "rates": {
        "tremor": ("Traders brace for {bank} decision after hot inflation print",),
        "shock": (
            "Surprise half-point rate rise from {bank} stuns bond traders",
            "Yields leap as {bank} abandons guidance",
        ),
        "aftermath": ("Bond sell-off deepens; mortgage rates follow",),
        "relief": ("Bonds steady as {bank} signals a pause",),
    },
    "dovish": {
        "tremor": ("Weak payrolls raise hopes that {bank} will move",),
        "shock": (
            "Emergency rate cut from {bank}; yields tumble",
            "Yields plunge as {bank} restarts bond purchases",
        ),
        "aftermath": ("Investors pile into bonds after surprise from {bank}",),
        "relief": ("Bond rally fades as data improve",),
    },
}

SIMMER: Final[Sequence[tuple[str, str]]] = (
    ("middle_east", "{place} summons ambassador over border remarks"),
    ("middle_east", "Drone intercepted near airbase in {place}; no damage reported"),
    ("middle_east", "Rocket fired from {place} lands in open field"),
    ("europe", "{place} expels {n} diplomats in spying row"),
    ("europe", "Undersea cable off {place} damaged; sabotage not excluded"),
    ("europe", "Alliance jets scramble as aircraft near {place} airspace"),
    ("asia_pacific", "{place} test-fires short-range missile into the sea"),
    ("asia_pacific", "Coast guards collide near shoal claimed by {place}"),
    ("asia_pacific", "{place} tightens export licences for {good}"),
    ("americas", "Strike at copper mines in {place} turns violent"),
    ("americas", "{place} deploys troops to prisons after riots"),
    ("americas", "Sanctions on officials from {place} renewed for another year"),
    ("africa", "Militia attack on village in {place} kills {n}"),
    ("africa", "Opposition in {place} rejects election result, calls protests"),
    ("africa", "{place} delays vote, citing insecurity in the north"),
)

ALARMS: Final[Sequence[tuple[str, str]]] = (
    ("middle_east", "Car bomb in capital of {place} kills {n}"),
    ("africa", "Heavy fighting in {place} displaces thousands; aid convoys attacked"),
    ("asia_pacific", "{place} fires ballistic missile over neighbour, sirens sound"),
    ("europe", "Gunmen attack police post in {place}, {n} dead"),
    ("americas", "Rebels in {place} blow up oil pipeline, exports unaffected"),
)

DECOYS: Final[Mapping[str, Sequence[str]]] = {
    "negation": (
        "{place} says there is no plan to close the strait",
        "No troops will cross the border, {place} assures neighbours",
        "Ministry denies report of missile strike in {place}",
        "Blast heard in {place} was quarry work, not an attack, police say",
        "{place} rules out sanctions against its neighbour",
        "Fears of invasion of {place} unfounded, monitors conclude",
        "Army in {place} dismisses coup rumours; president opens school",
        "Explosion in {city} was a gas leak; terrorism excluded",
        "Without a shot fired, {place} and rebels renew truce",
        "Rocket alert in {place} was a false alarm caused by a software fault",
    ),
    "metaphor": (
        "Price war: {sector} slashes fares in battle for market share",
        "{sector} chief under fire after profit warning bombs with investors",
        "Hostile bid: {sector} launches takeover assault on rival",
        "Streaming giants in arms race for {quarter} subscribers",
        "Boardroom coup at {sector} ousts founder",
        "Shares explode higher as {sector} torpedoes short sellers",
        "Startup declares war on paperwork",
        "Budget bombshell: finance minister drops tax pledge in {city}",
        "Heatwave invades {city}; ice cream makers mobilise",
        "Chef wages guerrilla campaign against bland tomatoes",
        "Nuclear option: {sector} sues its own auditor",
        "Trade show opens with a bang in {city}",
    ),
    "anniversary": (
        "{city} marks {years} years since wartime bombing with silent march",
        "Veterans gather in {place} on anniversary of the invasion",
        "{years} years on: how the missile crisis in {place} was defused",
        "Memorial unveiled for victims of the {place} air disaster of {years} years ago",
        "Museum in {city} recalls the siege, {years} years after it ended",
        "Archive: the coup in {place} that never made the front page",
        "Last survivor of the tank battle dies in {city} aged 101",
    ),
    "sport": (
        "{team} bombard {team2} in five-goal attack",
        "Striker fires {team} to victory in {city} derby shoot-out",
        "{team} coach under siege after third defeat",
        "Sniper-like finish as {team} kill off {team2} in extra time",
        "{team2} defence crumbles under late {team} assault",
        "Battle of {city}: {team} and {team2} meet in cup final",
        "Rifle team from {place} takes gold in shooting world cup",
        "Fencing: {place} captain blasts referees after blockade tactics",
    ),
    "fiction": (
        "War epic set in {place} tops box office for third week",
        "Review: a thriller about a coup in {place} misfires",
        "Video game lets players defend {city} from alien invasion",
        "Novel imagines blackout after cyberattack on {city}",
        "Festival in {city} opens with comedy about a nuclear submarine",
    ),
    "drill": (
        "Sirens across {place} today are a planned test, authorities say",
        "Fire brigade in {city} rehearses response to mock terror attack",
        "{place} ends annual naval exercise on schedule",
        "Scheduled exercise: hospitals in {city} practise for cyberattack",
    ),
}

PLAIN: Final[Sequence[str]] = (
    "{sector} beats {quarter} forecasts, raises dividend",
    "{sector} cuts outlook on softer demand",
    "{sector} to open plant in {city}, creating 800 jobs",
    "Regulator clears merger of {sector} and regional rival",
    "{bank} leaves rates unchanged, as expected",
    "Minutes show {bank} split on timing of next move",
    "Retail sales rise {pct} percent on warm weather",
    "House prices in {city} slip for a third month",
    "Exports of {good} up {pct} percent from a year earlier",
    "Harvest forecast lifted after good rains",
    "Airport in {city} adds night trains to the centre",
    "{city} approves tram extension after ten-year debate",
    "Researchers in {city} report progress on cheaper batteries",
    "Court in {city} rules for tenants in rent dispute",
    "Wages grow {pct} percent, in line with forecasts",
    "{sector} recalls products over labelling error",
    "Tourism to {place} returns to record levels",
    "{place} and the European Union conclude fisheries agreement",
    "{place} sells ten-year bond at lowest yield since issue",
    "{place} hosts summit on river management",
    "Election in {place} passes calmly, observers say",
    "New rail link between {place} and its neighbour opens",
    "Consumer confidence edges up in {city} survey",
    "Pension fund backs {sector} in governance vote",
    "Reservoirs full for the first time in {years} years",
    "Factory orders dip {pct} percent; economists unmoved",
    "{city} zoo welcomes otter triplets",
    "{sector} names new finance chief",
    "Patent office reports record filings from {place}",
    "Oil inventories rise slightly more than expected",
)


def fill(template: str, pick: Pick, place: str) -> str:
    """The template with every slot filled; two teams in one headline are never the same."""
    values = {name: pick(choices) for name, choices in SLOTS.items() if "{" + name + "}" in template}
    if "{team2}" in template:
        values["team2"] = pick([team for team in SLOTS["team"] if team != values.get("team")])
    text = template.format(place=place, **values)
    return text[0].upper() + text[1:]
