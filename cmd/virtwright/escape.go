package main

import (
	"crypto/rand"
	"flag"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/klog/v2"

	"github.com/virtwright/virtwright/presets"
)

// escapeMark stands for the escape character in colours. It is random, so that no text from outside
// contains it.
var escapeMark = rand.Text()

// A terminalWriter escapes control characters in all text, except in colours. All output of the
// program passes through one: no name, value or message of a server controls a terminal. Formats
// for programs have no such characters, because their encoders escape them.
type terminalWriter struct {
	to io.Writer

	mu sync.Mutex
	// rest is the beginning of a character that the next call completes.
	rest string
}

// Write writes text, except for an incomplete character at its end.
func (w *terminalWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.rest + string(p)
	end := len(text)
	for i := max(0, end-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRuneInString(text[i:]) {
			end = i
		}
	}
	w.rest = text[end:]
	if _, err := io.WriteString(w.to, strings.ReplaceAll(presets.Escape(text[:end]), escapeMark, "\x1b")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// IsTerminal reports whether the output is a terminal.
func (w *terminalWriter) IsTerminal() bool { return isTerminal(w.to) }

// raw returns the output behind a terminalWriter, for what a terminal must obey.
func raw(w io.Writer) io.Writer {
	if escaping, ok := w.(*terminalWriter); ok {
		return escaping.to
	}
	return w
}

// escapeLogs lets the client library log through a terminalWriter, too.
func escapeLogs() {
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		_ = flags.Set(name, value) // the flags exist
	}
	klog.SetOutput(&terminalWriter{to: os.Stderr})
}
