# shellcheck shell=bash
#
# Sourced by the scripts that test: one line per test in the file $WQ_TALLY,
# "passed NAME", "failed NAME" or "skipped NAME", for scripts/test to count.

# The kernel to look for mistakes with, one for all that do.
# shellcheck disable=SC2034 # used by the scripts
readonly DEBUG_CONFIG=debug,kasan,fault

# tally OUTCOME NAME: also says it.
tally() {
	[[ -z ${WQ_TALLY:-} ]] || echo "$*" >>"$WQ_TALLY"
	printf '%-8s%s\n' "$1" "$2"
}

# tally_ktap PREFIX FILE: each case of the KUnit suites in FILE. A case that
# the suite's plan counts and the file lacks is lost, which is a failure.
tally_ktap() {
	local outcome name

	while read -r outcome name; do
		tally "$outcome" "$1: $name"
	done < <(awk '
		/^    1\.\.[0-9]+$/ { plan += substr($1, 4) }
		/^    (not )?ok [0-9]+ / {
			seen++
			outcome = $1 == "not" ? "failed" : / # SKIP/ ? "skipped" : "passed"
			print outcome, $1 == "not" ? $4 : $3
		}
		END {
			if (!plan || seen != plan)
				print "failed", "lost, " seen + 0 " of " plan + 0 " KUnit cases reported"
		}' "$2" 2>/dev/null || echo "failed lost, no log")
}
