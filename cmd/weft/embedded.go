package main

import (
	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/internal/embed"
)

// embedOptions translates the settings for the embedded server. Where there is a
// nats-server file, a setting that nobody gave is left to the file; what that does
// not say either is as it is without a file.
func embedOptions(s settings) (*embed.Options, error) {
	usualCollector()
	o := &embed.Options{
		User:       s.Connection.User,
		Password:   s.Connection.Password,
		NATSConfig: s.NATSConfig,
		Logger:     s.log,
	}
	left := func(setting string) bool { return s.NATSConfig != "" && !s.given(setting) }
	if left("data") {
		o.DefaultDir = s.Data
	} else {
		o.DataDir = s.Data
	}
	if left("sync_interval") {
		o.DefaultSync = s.Sync.Every
	} else {
		o.SyncInterval, o.SyncAlways = s.Sync.Every, s.Sync.Always
	}
	o.Listen = s.Listen != ""
	if o.Listen && !left("listen") {
		var err error
		if o.Host, o.Port, err = config.SplitListen(s.Listen); err != nil {
			return nil, err
		}
	}
	return o, nil
}
