/* A server of MCP with one tool, `get`, that costs next to nothing: it looks for the id and the method of each line. */
#include <stdio.h>
#include <string.h>

static char line[1 << 20], id[256];

/* Copies the text of the member "id"; returns 0 if the line is a notification. */
static int find_id(void) {
    char *at = strstr(line, "\"id\":");
    if (!at) return 0;
    for (at += 5; *at == ' '; at++) {}
    size_t size = *at == '"' ? strcspn(at + 1, "\"") + 2 : strcspn(at, ",}");
    if (size >= sizeof id) return 0;
    memcpy(id, at, size);
    id[size] = 0;
    return 1;
}

static void answer(const char *member, const char *value) {
    printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":%s}\n", id, member, value);
    fflush(stdout);
}

int main(void) {
    while (fgets(line, sizeof line, stdin)) {
        if (!find_id()) continue;
        if (strstr(line, "\"tools/call\""))
            answer("result", "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}");
        else if (strstr(line, "\"tools/list\""))
            answer("result", "{\"tools\":[{\"name\":\"get\",\"description\":\"A tool\",\"inputSchema\":{\"type\":\"object\","
                             "\"properties\":{\"query\":{\"type\":\"string\"},\"limit\":{\"type\":\"integer\"}}}}]}");
        else if (strstr(line, "\"initialize\""))
            answer("result", "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},"
                             "\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}");
        else if (strstr(line, "\"ping\""))
            answer("result", "{}");
        else
            answer("error", "{\"code\":-32601,\"message\":\"method not found\"}");
    }
    return 0;
}
