"""Real data that come with the package.

`randhie.parquet`: 20,190 person-years of the RAND Health Insurance Experiment (public domain; Deb &
Trivedi 2002). `mdvis` is the number of visits to a doctor; `lncoins` log(coinsurance rate + 1), 0
being free care; `idp` 1 for an individual deductible plan; `lpi` log of the annual participation
incentive; `fmde` log of the maximal deductible expenditure; `physlm` 1 for a physical limitation;
`disea` number of chronic diseases; `hlthg`, `hlthf`, `hlthp` 1 for good, fair, poor self-rated
health (excellent otherwise); `person` the person, and `year` the year of the experiment.
"""

from pathlib import Path

RANDHIE = Path(__file__).parent / "randhie.parquet"
RANDHIE_FORMULA = "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
