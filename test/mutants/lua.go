package main

import (
	"regexp"
	"strconv"
	"strings"
)

// luaWords are the parts of a script's text that are changed, or must be skipped.
var luaWords = regexp.MustCompile(`--[^\n]*|'[^'\n]*'|<=|>=|==|~=|\.\.|[<>+*/]|\b\d+\b|\b(?:and|or|not|true|false|math\.max|math\.min)\b`)

// luaOthers are what replaces a word.
var luaOthers = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"}, "==": {"~="}, "~=": {"=="},
	"and": {"or"}, "or": {"and"}, "not": {""}, "true": {"false"}, "false": {"true"},
	"+": {"-"}, "*": {"/"}, "/": {"*"}, "math.max": {"math.min"}, "math.min": {"math.max"},
}

// luaStep matches a line that is a whole statement, and luaCondition a condition.
var (
	luaStep      = regexp.MustCompile(`(?m)^ *(?:redis\.p?call|mark|tell|[a-z_., ]+ =)[^\n]*$`)
	luaCondition = regexp.MustCompile(`\bif ([^\n]*?) then\b`)
)

// mutateLua finds what to change in a script: operators, bounds, conditions, and lines that are a
// whole statement.
func mutateLua(text string) (all []edit, err error) {
	for _, at := range luaWords.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		for _, other := range luaOthers[word] {
			all = append(all, edit{at[0], at[1], other})
		}
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, edit{at[0], at[1], strconv.Itoa(n + 1)})
		}
	}
	commented := func(from int) bool {
		line := text[1+strings.LastIndexByte(text[:from], '\n') : from]
		return strings.Contains(line, "--")
	}
	for _, at := range luaCondition.FindAllStringSubmatchIndex(text, -1) {
		if !commented(at[0]) {
			all = append(all, edit{at[2], at[3], "true"}, edit{at[2], at[3], "false"})
		}
	}
	for _, at := range luaStep.FindAllStringIndex(text, -1) {
		if line := strings.TrimSpace(text[at[0]:at[1]]); !strings.HasSuffix(line, "then") && !strings.HasSuffix(line, ",") {
			all = append(all, edit{at[0], at[1], ""})
		}
	}
	return all, nil
}
