package config

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile calls give for each setting that a YAML text holds, by its dotted
// name. It refuses members that are not settings, and one that is given twice.
func readFile(data []byte, give func(name string, line int, text string) error, path string) error {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("%s: not YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(document.Content) == 0 { // nothing but comments
		return nil
	}
	r := reader{path: path, give: give, known: groups(), seen: map[string]int{}}
	return r.mapping("", document.Content[0])
}

// reader walks the mappings of one file.
type reader struct {
	path  string
	give  func(name string, line int, text string) error
	known map[string]bool // setting names, and the groups they are in
	seen  map[string]int  // name to the line that gave it
}

// groups are the names that a mapping may hold: true for a setting, false for a
// group of settings.
func groups() map[string]bool {
	known := map[string]bool{}
	for _, row := range settings(new(Config)) {
		known[row.name] = true
		if group, _, ok := strings.Cut(row.name, "."); ok {
			known[group] = false
		}
	}
	return known
}

func (r *reader) mapping(prefix string, node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode && node.Tag == "!!null" {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		return r.at(node, "give settings as name: value")
	}
	for i := 0; i < len(node.Content); i += 2 {
		if err := r.member(prefix, node.Content[i], node.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) member(prefix string, key, value *yaml.Node) error {
	name := prefix + key.Value
	single, ok := r.known[name]
	if !ok {
		return r.at(key, fmt.Sprintf("setting %q is unknown; see weft help config", name))
	}
	if line, twice := r.seen[name]; twice {
		return r.at(key, fmt.Sprintf("setting %s is given twice, first on line %d", name, line))
	}
	r.seen[name] = key.Line
	if !single {
		return r.mapping(name+".", value)
	}
	text, err := scalar(value)
	if err != nil {
		return r.at(value, fmt.Sprintf("setting %s: %s", name, err))
	}
	return r.give(name, key.Line, text)
}

// scalar gives a value's text. Several servers may be a list.
func scalar(node *yaml.Node) (string, error) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, nil
	case yaml.AliasNode:
		return scalar(node.Alias)
	case yaml.SequenceNode:
		texts := make([]string, len(node.Content))
		for i, element := range node.Content {
			if element.Kind != yaml.ScalarNode {
				return "", errors.New("give a list of plain values")
			}
			texts[i] = element.Value
		}
		return strings.Join(texts, ","), nil
	}
	return "", errors.New("give one value")
}

func (r *reader) at(node *yaml.Node, problem string) error {
	return fmt.Errorf("%s:%d: %s", r.path, node.Line, problem)
}
