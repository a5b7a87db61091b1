# SPDX-License-Identifier: Apache-2.0
# bash completion for kith. tests/cli holds the options here against `kith COMMAND --help`.

_kith_options() {
    [[ $1 == devices ]] || echo "--header --delimiter --columns"
    local solve="-k --metric --method -o --output --format --distances --radius --period --recall --device
        --threads --memory --tune --dry-run -q --quiet -v --verbose --json -h --help"
    local change="-k --metric --include-self -o --output --points-out --format --verify --device --threads
        --memory --tune --dry-run -q --quiet -v --verbose --json -h --help"
    case $1 in
    graph) echo "$solve --allow --groups --rule --include-self --symmetric --init --shards --restart" ;;
    search) echo "$solve --allow --groups --query-groups --rule --output-back --both --mutual --stream --chunk --restart" ;;
    pairs)
        echo "--radius --period --metric --allow --groups --query-groups --rule --count --limit --restart --keep --components --kept
            --method -o --output --device --threads --memory --tune --dry-run -q --quiet -v --verbose --json -h --help"
        ;;
    truth)
        echo "-k --radius --runbook --metric --allow --groups --query-groups --rule --method --verify --sample --seed -o --output --ties
            --restart --device --threads --memory --tune -q --quiet -v --verbose --json -h --help"
        ;;
    select)
        echo "-k --select --buffer --buffer-size --group --level --merge --aligned --heap-sample --largest --unsorted --kth -o --output
            --device --threads --memory --tune --dry-run -q --quiet -v --verbose --json -h --help"
        ;;
    predict)
        echo "-k --metric --method --mode --truth -o --output --device --threads --memory --tune
            --dry-run -q --quiet -v --verbose --json -h --help"
        ;;
    merge | add) echo "$change --exact --recall" ;;
    remove) echo "$change --map" ;;
    index)
        echo "-k --metric --period --method --tree-height --recall --seed -o --output --threads --memory -q --quiet -v --verbose --json
            -h --help"
        ;;
    eval) echo "-k --metric --points --verify --sample --seed --threads --memory --html -q --quiet --json -h --help" ;;
    info | devices) echo "--json -h --help" ;;
    convert) echo "--format --distances -q --quiet --json -h --help" ;;
    esac
}

# Keys of --tune; those that have a value end in =.
_kith_tunes() {
    local descent="rounds= candidates= list= delta= start= start-share= updates="
    local paper="tree-height= pipeline= select= heap-sample= batch= leaf-buffer="
    case $1 in
    graph) echo "$paper sample= seed= $descent gpu-memory= shard-count= keep-shards parts= help" ;;
    search) echo "$paper sample= seed= width= gpu-memory= help" ;;
    predict) echo "tree-height= gpu-memory= help" ;;
    pairs) echo "sample= seed= gpu-memory= help" ;;
    merge | add) echo "sample= seed= $descent gpu-memory= help" ;;
    remove) echo "sample= seed= gpu-memory= help" ;;
    select | truth) echo "gpu-memory= help" ;;
    esac
}

_kith_values() {
    case $1 in
    --metric)
        echo "euclidean sqeuclidean inner_product cosine correlation manhattan chebyshev chi2 hamming
            jaccard kl minkowski:3 bit_hamming bit_jaccard haversine"
        ;;
    --method) echo "auto exact tree descent graph" ;;
    --symmetric) echo "union mutual" ;;
    --select)
        echo "auto scan quick radix insertion heap merge_queue bitonic threshold_heap"
        ;;
    --rule) echo "same other each" ;;
    --keep) echo "first central" ;;
    --mode) echo "mean weighted median vote weighted_vote" ;;
    --buffer) echo "none plain full sorted" ;;
    --group) echo "2 4 8" ;;
    --format) echo "npz csr ivecs ibin knn kith csv tsv csv-wide tsv-wide" ;;
    --header) echo "yes no" ;;
    --delimiter) echo "comma semicolon tab blank" ;;
    --device) echo "auto cpu cuda cuda:0 cuda:all" ;;
    esac
}

_kith() {
    local commands="graph search pairs truth select predict index merge add remove eval info convert devices help"
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
        return
    fi
    if [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
        return
    fi
    if [[ $command == index && $COMP_CWORD == 2 && $word != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "build add remove" -- "$word")
        return
    fi
    case $before in
    --metric | --method | --symmetric | --select | --mode | --rule | --keep | --buffer | --group | --format | --device)
        mapfile -t COMPREPLY < <(compgen -W "$(_kith_values "$before")" -- "$word")
        return
        ;;
    --tune)
        mapfile -t COMPREPLY < <(compgen -W "$(_kith_tunes "$command")" -- "$word")
        [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
        return
        ;;
    -k | --limit | --tree-height | --radius | --period | --heap-sample | --sample | --chunk | --seed | --threads | --memory | \
        --recall) return ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_kith_options "$command")" -- "$word")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
    fi
}

complete -F _kith kith
