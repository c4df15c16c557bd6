package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
)

// values are those of --param-file and of -p, which overrules it. Every problem
// is reported.
func (o *processing) values() (map[string]string, error) {
	out, err := o.fromFile()
	problems := []error{err}
	typed := map[string]string{}
	for i, text := range o.given {
		name, value, found := strings.Cut(text, "=")
		_, again := typed[name]
		switch {
		case !found && plainKey.MatchString(text): // and no secret whose name was forgotten
			problems = append(problems, fmt.Errorf("-p %s has no value: want %s=VALUE", text, text))
		case !found || name == "":
			problems = append(problems, fmt.Errorf("-p, %d of %d, has no name: want NAME=VALUE", i+1, len(o.given)))
		case again:
			problems = append(problems, fmt.Errorf("-p %s is given twice", name))
		default:
			typed[name] = value
		}
	}
	maps.Copy(out, typed)
	return out, errors.Join(problems...)
}

// fromFile reads --param-file. What is wrong with a line is said without its
// text, which may be a secret.
func (o *processing) fromFile() (map[string]string, error) {
	out := map[string]string{}
	if o.paramFile == "" {
		return out, nil
	}
	raw, err := os.ReadFile(o.paramFile)
	if err != nil {
		return out, fmt.Errorf("--param-file: %w", err)
	}
	var problems []error
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(raw), "\ufeff")) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if start := strings.TrimSpace(line); start == "" || strings.HasPrefix(start, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		_, again := out[name]
		switch {
		case !found || name == "":
			problems = append(problems, fmt.Errorf("--param-file %s, line %d: a line must be NAME=VALUE (give a value of several lines by -p)", o.paramFile, number))
		case again:
			problems = append(problems, fmt.Errorf("--param-file %s, line %d: %s is given twice", o.paramFile, number, name))
		default:
			out[name] = value
		}
	}
	return out, errors.Join(problems...)
}
