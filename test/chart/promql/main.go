// Command promql reads expressions of PromQL, one on a line. It prints the names of the metrics
// that they use, and writes to standard error what does not parse.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	expressions := bufio.NewScanner(os.Stdin)
	code := 0
	for expressions.Scan() {
		expression, err := parser.NewParser(parser.Options{}).ParseExpr(expressions.Text())
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", expressions.Text(), err)
			code = 1
			continue
		}
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				fmt.Println(selector.Name)
			}
			return nil
		})
	}
	if err := expressions.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "promql:", err)
		code = 1
	}
	os.Exit(code)
}
