package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"unicode"
)

func (o *options) logHandler(output io.Writer) slog.Handler {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(o.logLevel)) // checked by complete
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: withoutObject}
	if o.logFormat == "text" {
		return orderlyEnd{slog.NewTextHandler(output, options)}
	}
	return orderlyEnd{slog.NewJSONHandler(output, options)}
}

// orderlyEnd writes at level INFO what libraries log as an error only because the end of the
// process, or of a request, has canceled it, such as the leader election's last renewal.
type orderlyEnd struct{ slog.Handler }

func (h orderlyEnd) Handle(ctx context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok && record.Level == slog.LevelError && errors.Is(err, context.Canceled) {
			record.Level = slog.LevelInfo
		}
		return true
	})
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h orderlyEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return orderlyEnd{h.Handler.WithAttrs(attrs)}
}

func (h orderlyEnd) WithGroup(name string) slog.Handler {
	return orderlyEnd{h.Handler.WithGroup(name)}
}

// withoutObject drops the object of a request, which controller-runtime logs twice: as namespace
// and name, and in a group that is named after its kind. Other groups have names in lower case.
func withoutObject(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 && unicode.IsUpper(rune(groups[0][0])) && (a.Key == "namespace" || a.Key == "name") {
		return slog.Attr{}
	}
	return a
}
