# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The Test Anything Protocol for shell scripts, which read this file by
#
#     . "${MAYFLY_SRCDIR:-.}/tests/common/tap.sh"
#
# A test is a number of checks that complain() about what is wrong, and then a verdict():
#
#     grep ... && complain "tabs"
#     verdict "white space"
#     end_of_tests
#
# A script that ends without end_of_tests has failed, whatever its status.

tap_tests=0
tap_complaints=0 # of the test that is running
tap_failed=0

# complain TEXT...: the test that is running fails, and this is why.
complain() {
    printf '%s\n' "$*" | sed 's/^/# /'
    tap_complaints=$((tap_complaints + 1))
}

# verdict NAME: ends a test.
verdict() {
    tap_tests=$((tap_tests + 1))
    if [ "$tap_complaints" -eq 0 ]; then
        printf 'ok %d - %s\n' "$tap_tests" "$1"
    else
        printf 'not ok %d - %s\n' "$tap_tests" "$1"
        tap_failed=$((tap_failed + 1))
    fi
    tap_complaints=0
}

# skip_test NAME REASON: this test cannot run here.
skip_test() {
    tap_tests=$((tap_tests + 1))
    printf 'ok %d - %s # SKIP %s\n' "$tap_tests" "$1" "$2"
}

# skip_all REASON: no test of the script can run here.
skip_all() {
    printf '1..0 # SKIP %s\n' "$1"
    exit 0
}

# end_of_tests: has to be the last command, for its status.
end_of_tests() {
    printf '1..%d\n' "$tap_tests"
    # A complaint after the last verdict counts too.
    [ "$tap_failed" -eq 0 ] && [ "$tap_complaints" -eq 0 ]
}
