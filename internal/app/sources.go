package app

import (
	"fmt"
	"strings"

	"github.com/weft-fabric/weft/config"
	"github.com/weft-fabric/weft/fabric"
	"github.com/weft-fabric/weft/resolver/s3"
	"github.com/weft-fabric/weft/resolver/web"
)

// addSources has the fabric open what the settings enable beside its own references,
// and keep large outputs where they say. It asks no server; what is wrong is the
// caller's mistake.
func addSources(o *fabric.Options, c config.Config) error {
	o.Resolvers = map[string]fabric.Resolver{}
	if err := addWeb(o, c.HTTP); err != nil {
		return &UsageError{fmt.Errorf("config: http.hosts: %w", err)}
	}
	if err := addS3(o, c.S3); err != nil {
		return &UsageError{fmt.Errorf("config: %w", err)}
	}
	return nil
}

func addWeb(o *fabric.Options, c config.HTTP) error {
	hosts := strings.FieldsFunc(c.Hosts, func(r rune) bool { return r == ',' || r == ' ' })
	if len(hosts) == 0 {
		return nil
	}
	links, err := web.New(web.Options{Hosts: hosts, MaxSize: o.MaxInput})
	if err != nil {
		return err
	}
	o.Resolvers["http"], o.Resolvers["https"] = links, links
	return nil
}

func addS3(o *fabric.Options, c config.S3) error {
	if c.Endpoint == "" {
		if c.Output != "" {
			return fmt.Errorf("s3.output %.80q needs s3.endpoint, the URL of its server", c.Output)
		}
		return nil
	}
	store, err := s3.New(s3.Options{Endpoint: c.Endpoint, Region: c.Region, LinkLife: c.LinkLife})
	if err != nil {
		return err
	}
	o.Resolvers[s3.Scheme] = store
	if c.Output == "" {
		return nil
	}
	outputs, err := store.WithPrefix(c.Output)
	if err != nil {
		return err
	}
	o.Outputs = outputs
	return nil
}
