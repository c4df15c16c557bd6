//go:build js && wasm

// Command wasm is the engine of the playground: it runs in a browser, where it defines
// globalThis.virtwright.evaluate, a function from the JSON of an Input to the JSON of an Output.
package main

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"syscall/js"

	"github.com/virtwright/virtwright/cmd/virtwright/internal/playground"
	"github.com/virtwright/virtwright/cmd/virtwright/internal/version"
)

var evaluator playground.Evaluator

func main() {
	debug.SetGCPercent(400) // memory is small, and a collection stops the only thread
	js.Global().Set("virtwright", map[string]any{"evaluate": js.FuncOf(evaluate), "version": version.Current().String()})
	select {}
}

func evaluate(_ js.Value, args []js.Value) any {
	var in playground.Input
	if err := json.Unmarshal([]byte(args[0].String()), &in); err != nil {
		return `{"vms":[],"problems":[],"notes":["cannot read the input: invalid JSON"]}`
	}
	out, err := json.Marshal(evaluator.Evaluate(context.Background(), in))
	if err != nil { // unreachable: an Output has only text and numbers
		return `{"vms":[],"problems":[],"notes":["cannot write the output"]}`
	}
	return string(out)
}
