package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/virtwright/virtwright/lifecycle/templates/format"
)

// A value is one that was given for a parameter.
type value struct {
	name, text string
	// where it was given, for errors about what may be a secret.
	where string
	// hidden says that the name may be a part of a secret.
	hidden bool
}

var (
	// anyName is what may be the name of a parameter.
	anyName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	// sureName is what somebody meant to be one.
	sureName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// values are those of --param-file and of -p, which overrules it. Every problem
// is reported, and texts that may be secrets are not repeated.
func (o *processing) values() ([]value, error) {
	out, err := o.fromFile()
	problems := []error{err}
	typed := map[string]bool{}
	var given []value
	for i, text := range o.given {
		where := fmt.Sprintf("-p, %d of %d", i+1, len(o.given))
		name, text, found := strings.Cut(text, "=")
		switch {
		case !found:
			problems = append(problems, fmt.Errorf("%s, has no =: want NAME=VALUE", where))
		case !anyName.MatchString(name):
			problems = append(problems, fmt.Errorf("%s, has no name: want NAME=VALUE", where))
		case typed[name]:
			problems = append(problems, fmt.Errorf("-p %s is given twice", name))
		default:
			typed[name] = true
			given = append(given, value{name, text, where, !sureName.MatchString(name)})
		}
	}
	out = slices.DeleteFunc(out, func(v value) bool { return typed[v.name] })
	return append(out, given...), errors.Join(problems...)
}

// fromFile reads --param-file. Nothing of a line is repeated: it may be one of a
// secret that has several.
func (o *processing) fromFile() ([]value, error) {
	if o.paramFile == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(o.paramFile)
	if err != nil {
		return nil, fmt.Errorf("--param-file: %w", err)
	}
	var out []value
	var problems []error
	lines := map[string]int{}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\ufeff")) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if start := strings.TrimSpace(line); start == "" || strings.HasPrefix(start, "#") {
			continue
		}
		where := fmt.Sprintf("--param-file %s, line %d", o.paramFile, number)
		name, text, found := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch {
		case !found || !anyName.MatchString(name):
			problems = append(problems, fmt.Errorf("%s: a line must be NAME=VALUE (give a value of several lines by -p \"NAME=$(cat file)\")", where))
		case lines[name] > 0:
			problems = append(problems, fmt.Errorf("%s: has the name of line %d", where, lines[name]))
		default:
			lines[name] = number
			out = append(out, value{name, text, where, true})
		}
	}
	return out, errors.Join(problems...)
}

// known are the values as processing takes them. Those that are hidden, and for
// which a template has no parameter, it does not get to know; they are problems.
func known(values []value, parameters []format.Listing) (map[string]string, []string) {
	out := map[string]string{}
	var problems []string
	for _, v := range values {
		if v.hidden && !slices.ContainsFunc(parameters, func(p format.Listing) bool { return p.Name == v.name }) {
			problems = append(problems, v.where+": the template has no such parameter")
			continue
		}
		out[v.name] = v.text
	}
	return out, problems
}
