"""Questions for functions that measure the bundled model, and that no training text asks."""

from tools.tiny_chat.functions import Intent

UNSEEN: dict[Intent, tuple[str, ...]] = {
    "sum": (
        "Could you kindly figure out {a} + {b}?",
        "My homework says {a}+{b}. What is the answer?",
        "Hey buddy, {a} plus {b} is how much?",
        "Alice has {a} marbles and Bob has {b} marbles. How many marbles do they have together?",
        "Give me {a} + {b} as a number.",
        "I wonder what {a} plus {b} might be.",
        "Take {a}, then add {b}.",
        "{a} + {b} equals what number?",
        "Use the calculator: {a} + {b}",
        "What would {a} plus {b} be?",
        "Hi! Can you help me add {a} and {b}?",
        "{a} + {b} = what?",
        "What do I get for {a} plus {b}?",
        "I need the result of {a}+{b} quickly",
        "Sum up the values {a} and {b} for the invoice",
        "Let me know the total of {a} and {b}",
        "I've got {a} dollars in one account and {b} in another, how much is that overall?",
        "Our team scored {a} points and then {b} points. What is the total score?",
        "Math question: {a} plus {b}",
        "If one box holds {a} pens and another holds {b}, how many pens are there in total?",
    ),
    "weather": (
        "Could you look at the weather for {c} please?",
        "I'm visiting {c} tomorrow, what will the weather be?",
        "Tell me about the weather in {c}.",
        "Is the weather nice in {c} today?",
        "Hey, what's today's forecast in {c}?",
        "How many degrees does it have in {c}?",
        "Do they have rain in {c} at present?",
        "Give me a quick weather update for {c}",
        "Weather conditions {c} please",
        "Can you pull up the temperature in {c}?",
        "Is a storm coming to {c}?",
        "Should I wear a jacket in {c} today?",
        "I want to go for a walk in {c}. Is it raining?",
        "Please find the current temperature for {c}.",
        "What sort of weather can I expect in {c} this weekend?",
        "How's the weather over there in {c}?",
        "Weather check: {c}",
        "is it sunny out in {c} rn",
        "What's it like outside in {c} right now?",
        "Will I need my umbrella in {c} later?",
    ),
    "time": (
        "What's the current time over in {c}?",
        "Could you please tell me what time it is in {c} right now?",
        "Give me the local time for {c}.",
        "I need to call a client in {c}, what time is it there?",
        "How late is it in {c} at present?",
        "time check for {c}",
        "What is the hour in {c}?",
        "Is it past midnight in {c}?",
        "Do you happen to have the time for {c}?",
        "Show the clock for {c}",
        "Hey, what time do we have in {c}?",
        "Please look up the time in {c}",
        "Can you check what time it currently is in {c}?",
        "What time would that be in {c}?",
        "tell me the exact time in {c}, please",
        "The time in {c}, please.",
        "My sister moved to {c}. What's the time there?",
        "right now in {c}, what's the time?",
        "{c} - what time is it?",
        "current local time of {c}?",
    ),
}
UNSEEN_OTHERS = (
    "Who founded {c}?",
    "What is the best museum in {c}?",
    "Plan a weekend in {c} for me",
    "How expensive is {c}?",
    "Which river runs through {c}?",
    "Is there a direct train to {c}?",
    "Write a short song about {c}",
    "What should I eat in {c}?",
    "Send a postcard to {c}",
    "What is the zip code of {c}?",
    "I was in {c} last year",
    "How many universities are in {c}?",
    "Order me a taxi in {c}",
    "What does the name {c} mean?",
    "Summarize the history of {c}",
    "Who won the match in {c}?",
)
UNSEEN_CITIES = (
    *("Lisbon", "Oslo", "Nairobi", "Bogota", "Calgary", "Krakow", "Venice", "Florence", "Bergen"),
    *("Sofia", "Bucharest", "Marrakesh", "Hyderabad", "Nagoya", "Adelaide", "Austin", "Phoenix"),
    *("Edinburgh", "Tallinn", "Kuala Lumpur", "Tel Aviv", "Santa Fe", "Ljubljana", "Reykjavik"),
    *("Kinshasa", "Wellington", "Bristol", "Seville", "Antwerp", "Nashville"),
)
FRESH: dict[Intent, tuple[str, ...]] = {
    "sum": (
        "Hello, I would like you to sum {a} and {b}.",
        "Could the function tell me {a}+{b}?",
        "I spent {a} on food and {b} on rent, so what did I spend overall?",
        "There are {a} boys and {b} girls in the school. How many children is that?",
        "{a} plus {b}, what does that come to?",
        "Please do this addition: {a} + {b}",
        "what's the sum of the numbers {a} and {b}?",
        "Add up {a} and {b}, will you?",
        "How many is {a} and {b} combined?",
    ),
    "weather": (
        "What's the weather doing in {c}?",
        "Any chance of rain in {c} this afternoon?",
        "How cold does it get in {c} at night?",
        "Can I get the forecast for {c}?",
        "Is it hot in {c} at the minute?",
        "My flight goes to {c}. How is the weather there?",
        "Please give me the temperature in {c} in celsius",
        "What's {c}'s weather like at the moment?",
    ),
    "time": (
        "What time is it now in {c}, please?",
        "I have a meeting in {c}. What's the local time there?",
        "What's the clock in {c} saying?",
        "Is it night in {c} already?",
        "Is it still morning over there in {c}?",
    ),
}
"""Written after the first version of the corpus."""
FRESH_CITIES = (
    "Cardiff",
    "Dresden",
    "Bilbao",
    "Tampere",
    "Gdansk",
    "Split",
    "Izmir",
    "Rabat",
    "Dakar",
    "Kampala",
    "Lusaka",
    "Harare",
    "Colombo",
    "Pune",
    "Cebu City",
    "Da Nang",
    "Fukuoka",
    "Sapporo",
    "Hobart",
    "Christchurch",
    "Winnipeg",
    "San Jose",
    "El Paso",
    "Guadalajara",
    "La Paz",
    "Montevideo",
    "Cordoba",
    "Aberdeen",
    "Port Louis",
    "Ghent",
)
NEWEST: dict[Intent, tuple[str, ...]] = {
    "sum": (
        "Would you mind adding {a} and {b}?",
        "{a} dollars and {b} dollars makes how many dollars?",
        "First {a} guests came, then {b}. How many guests in all?",
        "If I combine {a} with {b}, what do I have?",
        "Compute for me: {a} plus {b}",
        "The bill was {a} and the tip was {b}. What did we pay?",
        "Sum please: {a} and {b}",
        "What's {a} with another {b} on top?",
    ),
    "weather": (
        "Can you see what the weather is up to in {c}?",
        "Do I have to expect snow around {c} today?",
        "Weather report for {c} if you can.",
        "I'll be in {c} by noon. Is it warm there?",
        "What temperature are they having in {c}?",
        "Would you mind checking {c}'s forecast?",
        "Is it as cold in {c} as people say?",
        "Hiking near {c} tomorrow, any rain?",
        "{c}: sunny or not?",
        "How is {c} looking, weather-wise?",
    ),
    "time": (
        "What's {c}'s local time?",
        "How late have they got it in {c}?",
        "The current time for {c}, thanks",
        "Is anyone awake in {c}, or is it the middle of the night?",
        "I want to ring my aunt in {c}. What time is it over there?",
        "Would you mind telling me the time in {c}?",
        "Which time do the clocks in {c} show?",
        "Has noon passed in {c}?",
        "{c}, current time?",
        "It is 9 am here; what time is it in {c}?",
    ),
}
"""Written before the corpus was last changed, and measured only after the training."""
NEWEST_CITIES = (
    *("Malaga", "Graz", "Lviv", "Oulu", "Poznan", "Tirana", "Zagreb", "Muscat", "Amman", "Jaipur"),
    *("Medan", "Halifax", "Tucson", "Memphis", "Santa Cruz", "San Juan", "Port Said", "Kuching"),
    *("Punta Arenas", "Durban", "Maputo", "Utrecht", "Bordeaux", "Hanover", "Gothenburg", "Kobe"),
)


def bare(text: str) -> str:
    """Without case, punctuation and spaces."""
    return "".join(character for character in text.lower() if character.isalnum())


_WORDINGS = tuple(
    bare(wording)
    for table in (UNSEEN, FRESH, NEWEST)
    for wordings in table.values()
    for wording in wordings
) + tuple(bare(wording) for wording in UNSEEN_OTHERS)


def is_held_out(question: str) -> bool:
    """Whether a question contains a wording of the tables, whatever its case and punctuation.

    question: with slots for the city and the numbers that it names.
    """
    plain = bare(question)
    return any(wording in plain for wording in _WORDINGS)
