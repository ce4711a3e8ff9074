"""Writes sample.txt: about 150 kB of plain English, made of sentences written for it and put together by chance.

It is there so that a model can be trained without a download: the loss falls within the first steps (letters, then
words), and goes on falling (who was named, what was counted, which table comes next). The text is always the same.

write_sample.py > sample.txt"""

import random
import sys
import textwrap

BYTES = 150_000
CHANCE = random.Random(1234)

PEOPLE = [("Ada", "she", "her"), ("Tomas", "he", "his"), ("Ingrid", "she", "her"), ("Pavel", "he", "his"),
          ("Miriam", "she", "her"), ("Oskar", "he", "his"), ("Leila", "she", "her"), ("Henry", "he", "his"),
          ("Nora", "she", "her"), ("Anton", "he", "his"), ("Grace", "she", "her"), ("Felix", "he", "his")]
TRADES = ["clockmaker", "gardener", "baker", "sailor", "teacher", "carpenter", "postman", "lens grinder", "miller",
          "bookbinder", "beekeeper", "ferryman", "tailor", "locksmith", "printer"]
PLACES = ["the harbour", "the old mill", "the observatory", "the market square", "the railway station",
          "the library", "the lighthouse", "the bridge over the river", "the orchard", "the town hall",
          "the edge of the forest", "the glass house", "the quarry", "the school"]
THINGS = ["a brass key", "a jar of honey", "a broken compass", "a letter without a name", "a blue umbrella",
          "a map of the coast", "a small telescope", "a basket of pears", "a wooden flute", "a sack of flour",
          "an old almanac", "a lantern", "a silver button", "a pocket watch", "a coil of rope"]
WEATHER = ["rain", "fog", "sunshine", "a light wind", "snow", "hail", "a clear sky", "low cloud", "thunder", "frost"]
MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
          "November", "December"]
FRUIT = ["apples", "pears", "plums", "cherries", "walnuts", "lemons", "figs", "quinces"]
NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
# Name, place from the sun, length of its year in our days, moons that one of the tales counts.
PLANETS = [("Mercury", "first", 88, 0), ("Venus", "second", 225, 0), ("Earth", "third", 365, 1),
           ("Mars", "fourth", 687, 2), ("Jupiter", "fifth", 4333, 4), ("Saturn", "sixth", 10759, 7),
           ("Uranus", "seventh", 30687, 5), ("Neptune", "eighth", 60190, 1)]
SAYINGS = ["A clock that stands still is right twice a day, but nobody can say when.",
           "Who measures twice has to cut only once.",
           "A map is not the road, yet without it the road is longer.",
           "The river does not ask how wide the sea is.",
           "What is written down need not be remembered, only found.",
           "Two hands carry a table that four opinions cannot move.",
           "The best time to mend a roof is when the sun shines.",
           "A short answer is often a long thought.",
           "He who counts the stars begins with one.",
           "Every key was once a piece of plain iron."]


def one(choices):
    return CHANCE.choice(choices)


def count(number, plural):
    """'one pear', 'seven pears'."""
    singular = {"cherries": "cherry", "days": "day", "moons": "moon"}.get(plural, plural[:-1])
    return f"{NUMBERS[number]} {singular if number == 1 else plural}"


def capital(sentence):
    return sentence[0].upper() + sentence[1:]


def tale():
    (name, he, his), (other, _, _) = CHANCE.sample(PEOPLE, 2)
    trade, place, thing = one(TRADES), one(PLACES), one(THINGS)
    opening = one([f"{name} was a {trade} who lived near {place}.",
                   f"In a house not far from {place} lived a {trade} by the name of {name}.",
                   f"Everybody at {place} knew {name}, the {trade}."])
    finding = one([f"One morning {he} found {thing} on the doorstep.",
                   f"On a day of {one(WEATHER)}, {he} came upon {thing} by the road.",
                   f"When {he} opened the cupboard, there lay {thing} where nothing had been before."])
    asking = one([f'"Whose is this?" {he} asked, but only the wind answered.',
                  f'"This must belong to {other}," {he} thought, and put on {his} coat.',
                  f'"I shall keep it safe," {he} said, "until somebody asks for it."'])
    walking = one([f"So {name} walked to {one(PLACES)} and waited there until the evening.",
                   f"It took {count(CHANCE.randint(1, 12), 'days')} before anyone came.",
                   f"The way to {one(PLACES)} was long, and there was {one(WEATHER)} all the while."])
    ending = one([f"At last {other} came by, saw {thing}, and laughed: it had been lost for years.",
                  f"{other} had been looking for it everywhere, and gave {name} {one(THINGS)} in return.",
                  f"Nobody ever came, and {thing} is there to this day, as anyone can see who visits {place}.",
                  f"In the end {name} gave it to {other}, who knew at once what it was for."])
    return " ".join([opening, finding, asking, walking, ending, *([one(SAYINGS)] if CHANCE.random() < 0.3 else [])])


def sums():
    name, he, _ = one(PEOPLE)
    fruit = one(FRUIT)
    had, got = CHANCE.randint(2, 10), CHANCE.randint(1, 10)
    gave = CHANCE.randint(1, had)
    return one([f"{name} had {count(had, fruit)} and picked {count(got, fruit)} more. Then {he} had "
                f"{count(had + got, fruit)}.",
                f"{name} had {count(had, fruit)} and gave {count(gave, fruit)} away. Then {he} had "
                f"{count(had - gave, fruit)} left.",
                f"{capital(NUMBERS[had])} and {NUMBERS[got]} make {NUMBERS[had + got]}."])


def planet():
    name, order, days, moons = one(PLANETS)
    return one([f"{name} is the {order} planet from the sun. Its year lasts {days} days of ours.",
                f"Seen from the sun, {name} is the {order} of the planets; in this book it is given "
                f"{count(moons, 'moons')}.",
                f"The {order} planet is {name}, which goes once around the sun in {days} days."])


def diary():
    month = one(MONTHS)
    first = CHANCE.randint(1, 24)
    lines = [f"{month} {first + i}. {capital(one(WEATHER))} in the morning, {one(WEATHER)} after noon. "
             f"{CHANCE.randint(-5, 28)} degrees." for i in range(CHANCE.randint(2, 4))]
    return "\n".join(lines)


def letter():
    (name, _, _), (other, _, _) = CHANCE.sample(PEOPLE, 2)
    return (f"Dear {name},\nI write to you from {one(PLACES)}, where we have had {one(WEATHER)} since {one(MONTHS)}. "
            f"Please bring {one(THINGS)} when you come, and {one(THINGS)} if you can find one. "
            f"{one(SAYINGS)}\nYours, {other}")


def table():
    rows = CHANCE.sample(FRUIT, CHANCE.randint(3, 5))
    amounts = [CHANCE.randint(1, 90) for _ in rows]
    lines = [f"{fruit:<10}{amount:>5}" for fruit, amount in zip(rows, amounts)]
    return "\n".join(["goods      sold", *lines, f"{'together':<10}{sum(amounts):>5}"])


def talk():
    (name, _, _), (other, _, _) = CHANCE.sample(PEOPLE, 2)
    place = one(PLACES)
    return (f'"How far is it to {place}?" asked {name}.\n"{capital(NUMBERS[CHANCE.randint(2, 20)])} miles," said '
            f'{other}, "or less, if you do not mind {one(WEATHER)}."\n"And what will I find there?"\n'
            f'"{capital(one(THINGS))}, perhaps, or {one(THINGS)}. I have not been at {place} since {one(MONTHS)}."')


def main():
    kinds = [tale, tale, tale, tale, sums, sums, planet, planet, diary, letter, table, talk]
    pieces, size = [], 0
    while size < BYTES:
        kind = one(kinds)
        piece = "\n".join(textwrap.fill(line, 96) for line in kind().split("\n"))
        pieces.append(piece + "\n")
        size += len(piece) + 2
    sys.stdout.write("\n".join(pieces))


if __name__ == "__main__":
    main()
