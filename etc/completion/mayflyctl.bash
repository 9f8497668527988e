# SPDX-License-Identifier: BSD-3-Clause
# Completion of mayflyctl for bash. Made by `make docs` from ctl/commands.def and ctl/options.def.

_mayflyctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local command='' options='' words='' i=1
    COMPREPLY=()
    case $prev in
        --control|-s|--password-file|--ca|--cert|--key) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
        --host|-h|--port|-p|--user|--tls-name|--timeout|-t|--watch|-w|--count|-n|--interval|-i|--sort|--match|-m|--prefix|--min-size|--within|--expire|-E|--flags|-f) return ;;
    esac
    while ((i < COMP_CWORD)); do
        case ${COMP_WORDS[i]} in
            --control|-s|--password-file|--ca|--cert|--key|--host|-h|--port|-p|--user|--tls-name|--timeout|-t|--watch|-w|--count|-n|--interval|-i|--sort|--match|-m|--prefix|--min-size|--within|--expire|-E|--flags|-f) ((i++)) ;;
            -*) ;;
            *) command=${COMP_WORDS[i]}; break ;;
        esac
        ((i++))
    done
    case $command in
        '') words='stats config watch dump get set delete ttl touch top memory doctor latency hotkeys bigkeys slowlog ping version save load check upgrade bgsave moves replicas replicaof promote failover wait flush shutdown raw help' ;;
        stats) words='bigkeys budgets conns detail expire hotkeys items latency moves persistence replication reset settings shards sizes slabs' options=' --watch --explain --count' ;;
        config) words='get set reset reload rewrite' options='' ;;
        watch) words='fetchers mutations evictions connevents deletions expirations' options=' --count' ;;
        dump) words='' options=' --count --match --min-size --within --never --unread --keys' ;;
        get) words='' options=' --raw --escaped' ;;
        set) words='' options=' --escaped --expire --flags' ;;
        delete) words='' options=' --escaped' ;;
        ttl) words='' options=' --escaped' ;;
        touch) words='' options=' --escaped' ;;
        top) words='' options=' --count --interval --sort --lines --ascii' ;;
        memory) words='' options=' --ascii' ;;
        doctor) words='' options='' ;;
        latency) words='reset workers' options='' ;;
        hotkeys) words='' options='' ;;
        bigkeys) words='' options='' ;;
        slowlog) words='get len reset' options='' ;;
        ping) words='' options='' ;;
        version) words='' options='' ;;
        save) words='' options='' ;;
        load) words='' options='' ;;
        check) words='' options=' --quiet' ;;
        upgrade) words='' options='' ;;
        bgsave) words='' options='' ;;
        moves) words='cancel' options='' ;;
        replicas) words='' options='' ;;
        replicaof) words='no' options=' --yes' ;;
        promote) words='' options=' --yes' ;;
        failover) words='' options=' --yes' ;;
        wait) words='' options='' ;;
        flush) words='' options=' --prefix --yes' ;;
        shutdown) words='graceful nosave save' options=' --yes' ;;
        raw) words='' options='' ;;
        help) words='stats config watch dump get set delete ttl touch top memory doctor latency hotkeys bigkeys slowlog ping version save load check upgrade bgsave moves replicas replicaof promote failover wait flush shutdown raw help' options='' ;;
    esac
    # Names of options are those of the server, unless it would ask for a password.
    if [[ $command == config && ${COMP_WORDS[i+1]} =~ ^(get|set|reset)$ ]] &&
        ((COMP_CWORD > i + 1)) && [[ ${COMP_WORDS[*]:1:i-1} != *--user* ]]; then
        words=$("${COMP_WORDS[0]}" "${COMP_WORDS[@]:1:i-1}" --timeout 1 config get \
            2>/dev/null </dev/null | sed 's/ .*//')
    fi
    if [[ $command =~ ^(check|load|save)$ && $cur != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
    fi
    if [[ $cur == -* ]]; then
        words="$options --control --host --port --user --password-file --tls --ca --cert --key --tls-name --timeout --json --help --version"
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -F _mayflyctl mayflyctl
