package app

import (
	"io"
	"log/slog"

	"github.com/weft-fabric/weft/config"
)

// NewLogger makes the program's logger, which writes to w.
func NewLogger(w io.Writer, c config.Log) (*slog.Logger, error) {
	level, err := c.SlogLevel()
	if err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return slog.New(slog.NewTextHandler(w, options)), nil
}
