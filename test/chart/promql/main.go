// Command promql reads expressions of PromQL, one on a line, and prints a line
// for each that does not parse.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	expressions := bufio.NewScanner(os.Stdin)
	for expressions.Scan() {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(expressions.Text()); err != nil {
			fmt.Printf("%s: %v\n", expressions.Text(), err)
		}
	}
	if err := expressions.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		os.Exit(1)
	}
}
